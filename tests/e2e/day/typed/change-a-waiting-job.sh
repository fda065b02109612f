# source: Slurm, slurm.schedmd.com/scontrol.html
# does: hold, change and release a waiting job with `scontrol`, and print its script (`scontrol write batch_script`)
# says: JobHeldUser
# says: TimeLimit=00:05:00
# says: #!/bin/sh
# says: COMPLETED
job=$(sbatch --parsable --hold --time=10 --output=/dev/null --wrap=hostname)
squeue --noheader --job=$job --format=%r
scontrol update JobId=$job TimeLimit=5
scontrol show job $job | grep -o 'TimeLimit=[^ ]*'
scontrol write batch_script $job - | head -n 1
scontrol release $job
until scontrol show job $job | grep -o COMPLETED; do sleep 0.5; done
