"""The placeholder job of a gang: what Slurm is asked for, how the job changes, and why it ends."""
