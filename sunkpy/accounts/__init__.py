"""The accounts: what values say about accounts, QoS and users is what slurmdbd says (one per Slurm cluster)."""
