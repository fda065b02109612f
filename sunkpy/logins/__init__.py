"""Runs personal login pods: starts them on request, stops them while unused, recreates them (one process per Slurm
cluster).
"""
