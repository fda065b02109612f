# source: NERSC, docs.nersc.gov/jobs
# does: ask with `sbatch --test-only` when a job would start; Slurm refuses a request that no node can meet, and says why
# says: sbatch: Job \d+ to start at \S+ (a )?using 2 processors on nodes compute-.*
# says: sbatch: error: Memory specification can not be satisfied
# says: .*Requested node configuration is not available
sbatch --test-only --nodes=2 --wrap=hostname
sbatch --mem=100T --wrap=hostname || true
