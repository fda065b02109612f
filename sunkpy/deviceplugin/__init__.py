"""`sunkpy device-plugin`: on each node with GPUs, hands a pod the very GPUs that Slurm gave to its job."""
