# source: Slurm, slurm.schedmd.com/sbatch.html
# does: ask for whole nodes with `--exclusive` and `--mem=0`: the job has all cpus and all memory of both nodes, and no other job gets there
# says: all cpus of 2 nodes
# says: all memory
# says: nobody else: Resources
job=$(sbatch --parsable --nodes=2 --exclusive --mem=0 --time=10 --output=/dev/null --wrap='sleep infinity')
until squeue --noheader --states=RUNNING --job=$job | grep -q .; do sleep 0.2; done
got() { scontrol show job $job | grep -o "AllocTRES=.*" | grep -oE "\b$1=[0-9.]+" | cut -d = -f 2; }
node=$(scontrol show hostnames $(squeue --noheader --job=$job --format=%N) | head -n 1)
[ $(got cpu) = $((2 * $(sinfo --noheader --nodes=$node --partition=low --format=%c))) ] && echo all cpus of $(got node) nodes
scontrol show node $node | grep -oE '(RealMemory|AllocMem)=[0-9]+' | cut -d = -f 2 | uniq | wc -l | sed 's/^1$/all memory/'
other=$(sbatch --parsable --nodelist=$node --time=1 --output=/dev/null --wrap=hostname)
until reason=$(squeue --noheader --job=$other --format=%r) && [ "$reason" != None ]; do sleep 0.2; done
echo nobody else: $reason
scancel $job $other
