# source: NERSC, docs.nersc.gov/jobs
# does: `sbatch --test-only`; a request that no node can meet is refused in words
# says: sbatch: Job \d+ to start at \S+ (a )?using 2 processors on nodes compute-.*
# says: sbatch: error: Memory specification can not be satisfied
# says: .*Requested node configuration is not available
sbatch --test-only --nodes=2 --wrap=hostname
sbatch --mem=100T --wrap=hostname || true
