"""What prologs, epilogs and the gate ask over HTTP, and how they are answered."""
