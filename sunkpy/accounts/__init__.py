"""Keeps accounts, QoS and users in slurmdbd as the values say (one per Slurm cluster)."""
