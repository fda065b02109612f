"""Watches Kubernetes nodes, Slurm nodes, slurmd pods and volumes, and finds out which nodes a pod may use."""
