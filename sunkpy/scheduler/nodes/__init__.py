"""The nodes as the scheduler watches them, and which of them a pod may use."""
