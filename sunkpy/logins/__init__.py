"""Personal login pods: started on request, stopped while unused, recreated (one process per Slurm cluster)."""
