# source: NERSC, docs.nersc.gov/jobs/examples (job arrays); Slurm, slurm.schedmd.com/job_array.html
# does: work with parts of an array: `--array=1,3-9:2`, `squeue --array`, `scancel JOB_[3-5]`, `scontrol update ArrayTaskThrottle`, `SLURM_ARRAY_TASK_COUNT`
# says: 1 3 5 7 9
# says: 1 7 9
# says: ArrayTaskThrottle=1
# says: 1 of 5, 1 to 9 by 2
# says: 7 of 5, 1 to 9 by 2
# says: 9 of 5, 1 to 9 by 2
list() { squeue --noheader --array --job=$job --format=%K | sort -n | paste -sd ' '; }
job=$(sbatch --parsable --hold --array=1,3-9:2 --time=1 --output=%a.out --wrap='echo $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT, $SLURM_ARRAY_TASK_MIN to $SLURM_ARRAY_TASK_MAX by $SLURM_ARRAY_TASK_STEP')
list
scancel "${job}_[3-5]"
list
scontrol update JobId=$job ArrayTaskThrottle=1
scontrol show job $job | grep -o 'ArrayTaskThrottle=[0-9]*' | head -n 1
scontrol release $job
until [ -z "$(squeue --noheader --states=PENDING,RUNNING,COMPLETING --job=$job)" ]; do sleep 0.5; done
cat 1.out 7.out 9.out
