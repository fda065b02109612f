"""Keeps accounts, QoS and users in slurmdbd as the chart's values say. One process serves one Slurm cluster."""
