"""Jobs of the charts: what runs once, before a Slurm cluster is there and before it goes."""
