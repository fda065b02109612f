"""sunkpy: Slurm on Kubernetes, one pool of nodes with one queue and two front doors."""

__version__ = "0.1.0"
