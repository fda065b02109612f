"""What decisions read: Kubernetes objects and Slurm states as frozen values, and the rules that come with them."""
