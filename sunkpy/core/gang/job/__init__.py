"""What is asked of Slurm for a gang, and how its job ends."""
