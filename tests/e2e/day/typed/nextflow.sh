# source: Nextflow, nextflow.io/docs/latest/executor.html (`process.executor = 'slurm'`)
# does: `nextflow run`
# cannot: the test has no way to Nextflow's own download; it needs `sbatch`, `squeue` and `scancel`
