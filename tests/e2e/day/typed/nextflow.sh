# source: Nextflow, nextflow.io/docs/latest/executor.html (`process.executor = 'slurm'`)
# does: run a workflow with `nextflow run`
# cannot: the test cannot reach Nextflow's download; Nextflow uses `sbatch`, `squeue` and `scancel`, which run
