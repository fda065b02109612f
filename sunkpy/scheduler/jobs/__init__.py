"""Submits placeholder jobs to Slurm, polls the states of jobs, and searches for the placeholder jobs of earlier
leaders.
"""
