# source: Slurm, slurm.schedmd.com/sbatch.html and squeue.html (environment variables)
# does: set defaults of commands by environment variables: `SBATCH_ACCOUNT`, `SBATCH_TIMELIMIT`, `SQUEUE_FORMAT`, `SLURM_TIME_FORMAT`
# says: chem 3:00 \d+-\d+
export SBATCH_ACCOUNT=chem SBATCH_TIMELIMIT=3 SQUEUE_FORMAT='%a %l %V' SLURM_TIME_FORMAT=%Y-%m
job=$(sbatch --parsable --hold --wrap=hostname)
squeue --noheader --job=$job
scancel $job
