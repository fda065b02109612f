# source: Slurm, slurm.schedmd.com/salloc.html
# does: allocate nodes for one command (`salloc … COMMAND`), or without a shell (`salloc --no-shell`) and run steps with `srun --jobid`; or only if it starts at once (`--immediate`)
# says: 2 nodes
# says: 1 in compute-\d+-\d+
# says: CANCELLED
salloc --quiet --immediate=30 --nodes=2 --time=1 bash -c 'echo $(srun hostname | sort -u | wc -l) nodes'
salloc --no-shell --time=2 --job-name=kept 2> told
job=$(grep -oE '[0-9]+' told | head -n 1)
srun --jobid=$job bash -c 'echo $SLURM_NTASKS in $(hostname)'
scancel $job
until scontrol show job $job | grep -o CANCELLED; do sleep 0.2; done
