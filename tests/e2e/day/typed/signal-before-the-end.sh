# source: NERSC, docs.nersc.gov/jobs/examples (variable-time jobs); ULHPC, hpc-docs.uni.lu/jobs/signals
# does: have Slurm signal the script a minute before the time limit (`--signal=B:USR1@60`); a trap saves and requeues, and the second run goes on from the checkpoint
# limit: 300
# says: run 0 begins at 0
# says: told, saved
# says: .*CANCELLED AT .* DUE TO JOB REQUEUE .*
# says: run 1 begins at 7
cat > saves.job <<'END'
#!/bin/bash
#SBATCH --signal=B:USR1@60
#SBATCH --time=00:02:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=said
save() { echo "told, saved"; echo 7 > checkpoint; scontrol requeue $SLURM_JOB_ID; }
trap save USR1
from=$(cat checkpoint 2> /dev/null || echo 0)
echo "run ${SLURM_RESTART_COUNT:-0} begins at $from"
[ $from = 0 ] || exit 0
for second in {1..120}; do sleep 1 & wait $!; done
END
job=$(sbatch --parsable saves.job)
until scontrol show job $job | grep -q COMPLETED; do sleep 1; done
cat said
