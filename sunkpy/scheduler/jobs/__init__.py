"""Placeholder jobs in Slurm: submitted, polled, searched for."""
