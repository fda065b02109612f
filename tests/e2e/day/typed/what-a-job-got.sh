# source: NERSC, docs.nersc.gov/jobs/monitoring; Slurm, slurm.schedmd.com/sacct.html
# does: look what a job got: `scontrol show job --details` while it runs; `sacct` with TRES, memory, time, exit code and steps after it
# says: Nodes=compute-\d+-\d+ CPU_IDs=\S+ Mem=100 GRES=
# says: FAILED\|3:0\|billing=\d+,cpu=1,mem=100M,node=1\|100M
# says: batch\|FAILED\|3:0
# says: 0\|COMPLETED\|0:0
job=$(sbatch --parsable --mem=100 --time=1 --output=/dev/null --wrap='srun sleep 2; exit 3')
until scontrol show job --details $job | grep -o 'Nodes=.* GRES=$'; do sleep 0.2; done
until sacct -X -n -P -j $job -o End | grep -q T; do sleep 0.5; done
sacct -X --noheader --parsable2 --jobs=$job --format=State,ExitCode,AllocTRES,ReqMem
sacct --noheader --parsable2 --jobs=$job --format=JobID,State,ExitCode | sed -n "s/^$job\.//p" | grep -v extern
