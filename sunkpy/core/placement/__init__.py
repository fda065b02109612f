"""Where pods may go: which Slurm nodes to allow a job, and whether a kubelet would admit a pod."""
