"""One GPU, one owner: pods with claims beside jobs of `sbatch`, on a node with pretend GPUs that come by DRA."""
