"""The placeholder job of a gang, which holds the nodes for its pods: what Slurm is asked for, how the job changes, and
why it ends.
"""
