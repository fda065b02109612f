"""Login pods of one's own: started for who asks, stopped while nobody uses them, made anew (one per Slurm cluster)."""
