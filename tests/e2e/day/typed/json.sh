# source: Slurm, slurm.schedmd.com/squeue.html (`--json`)
# does: read the output of `squeue --json`, `scontrol show job --json`, `sinfo --json` and `sacct --json` with jq
# says: queued PENDING
# says: queued chem
# says: 3
# says: queued CANCELLED
job=$(sbatch --parsable --hold --job-name=queued --time=1 --wrap=hostname)
squeue --json --me | jq -r ".jobs[] | select(.job_id == $job) | .name + \" \" + .job_state[0]"
scontrol show job $job --json | jq -r '.jobs[0] | .name + " " + .account'
sinfo --json | jq '[.sinfo[] | select(.partition.name == "low") | .nodes.total] | add'
scancel $job
until sacct --json --jobs=$job | jq -r '.jobs[] | .name + " " + .state.current[0]' | grep CANCELLED; do sleep 0.5; done
