# source: Slurm, slurm.schedmd.com/sbatch.html (`--dependency`)
# does: `--dependency=aftercorr`: each task after that of the same number; `after:JOB+1` waits
# says: 2 after 2
# says: Dependency
first=$(sbatch --parsable --array=1-2 --time=1 --output=/dev/null --wrap='echo $SLURM_ARRAY_TASK_ID > made.$SLURM_ARRAY_TASK_ID')
sbatch --wait --array=1-2 --time=1 --output=/dev/null --dependency=aftercorr:$first --wrap='cp made.$SLURM_ARRAY_TASK_ID used.$SLURM_ARRAY_TASK_ID' > /dev/null
echo $(cat used.2) after $(cat made.2)
later=$(sbatch --parsable --time=1 --output=/dev/null --dependency=after:$first+1 --wrap=hostname)
sleep 1
squeue --noheader --job=$later --format=%r
scancel $later
