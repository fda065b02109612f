"""What the scheduler says to people and to the next leader: Events, conditions and annotations."""
