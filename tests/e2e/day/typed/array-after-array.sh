# source: Slurm, slurm.schedmd.com/sbatch.html (`--dependency`)
# does: submit an array whose tasks wait each for the task of the same number in another array (`--dependency=aftercorr`), and a job that waits a minute after another's start (`after:JOB+1`)
# says: Dependency
# says: 2 after 2
first=$(sbatch --parsable --array=1-2 --time=1 --output=/dev/null --wrap='echo $SLURM_ARRAY_TASK_ID > made.$SLURM_ARRAY_TASK_ID')
later=$(sbatch --parsable --time=1 --output=/dev/null --dependency=after:$first+1 --wrap=hostname)
until squeue --noheader --job=$later --format=%r | grep Dependency; do sleep 0.2; done
scancel $later
sbatch --wait --array=1-2 --time=1 --output=/dev/null --dependency=aftercorr:$first --wrap='cp made.$SLURM_ARRAY_TASK_ID used.$SLURM_ARRAY_TASK_ID' > /dev/null
echo $(cat used.2) after $(cat made.2)
