# source: CSC, docs.csc.fi/computing/running/interactive-usage
# does: look into a running job with `srun --overlap --jobid`, `sstat` and `sattach`
# says: inside \d+ on compute-\d+-\d+
# says: \d+\.batch\|\d+\|
# says: (?s:.*)tick(?s:.*)
job=$(sbatch --parsable --time=2 --output=/dev/null --wrap='srun bash -c "while sleep 1; do echo tick; done"')
until squeue --noheader --steps --job=$job | grep -q "$job\.0"; do sleep 0.5; done
srun --overlap --jobid=$job --ntasks=1 bash -c 'echo inside $SLURM_JOB_ID on $(hostname)'
sstat --noheader --parsable --format=JobID,NTasks --jobs=$job.batch
sattach $job.0 > seen 2>&1 &
until grep -s tick seen; do sleep 0.2; done
scancel $job
