"""Workload manifests on real operators: what they become in Slurm, held against what they should become."""
