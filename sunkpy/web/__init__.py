"""The web page of the pool: one read of Slurm and Kubernetes for all viewers, sent over HTTP. It changes nothing."""
