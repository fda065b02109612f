"""sunkpy: Slurm on Kubernetes, one pool of nodes and one queue for Slurm jobs and pods."""

__version__ = "0.1.0"
