# source: Slurm, slurm.schedmd.com/scancel.html
# does: send a signal to a job's script (`scancel --signal=USR1 --batch`) or to its steps (`scancel --signal=USR2`)
# says: script heard USR1
# says: step heard USR2
cat > hears.job <<'END'
#!/bin/bash
#SBATCH --time=1 --output=said
trap 'echo script heard USR1' USR1
srun python3 -c '
import signal
signal.signal(signal.SIGUSR2, lambda *_: print("step heard USR2"))
open("ready", "w").close()
signal.pause()' &
while [ "$(jobs -r)" ]; do wait; done
END
job=$(sbatch --parsable hears.job)
until [ -e ready ]; do sleep 0.2; done
scancel --signal=USR1 --batch $job
until grep -q USR1 said; do sleep 0.2; done
scancel --signal=USR2 $job
until scontrol show job $job | grep -q COMPLETED; do sleep 0.2; done
cat said
