"""Submits placeholder jobs to Slurm, polls them, and searches for those of an earlier leader."""
