# source: NERSC, docs.nersc.gov/jobs/examples (variable-time jobs); ULHPC, hpc-docs.uni.lu/jobs/signals
# does: `--signal=B:USR1@60` with a trap that saves and requeues: the second run goes on from the checkpoint
# limit: 240
# says: begun at 0
# says: told, saved
# says: .*CANCELLED AT .* DUE TO JOB REQUEUE .*
# says: begun at 7
# says: done
cat > saves.job <<'END'
#!/bin/bash
#SBATCH --signal=B:USR1@60
#SBATCH --time=00:01:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=said
save() { echo "told, saved"; echo 7 > checkpoint; scontrol requeue $SLURM_JOB_ID; }
trap save USR1
from=$(cat checkpoint 2> /dev/null || echo 0)
echo begun at $from
[ $from = 0 ] || { echo done; exit 0; }
for i in $(seq 60); do sleep 1 & wait $!; done
END
job=$(sbatch --parsable saves.job)
until grep -sq done said; do sleep 1; done
cat said
