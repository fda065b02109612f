"""Jobs of the charts: they run once, before a Slurm cluster is installed and before it is removed."""
