# source: NERSC, docs.nersc.gov/jobs
# does: submit a script with #SBATCH lines for its name, its output file (%x, %j) and tasks on two nodes, which runs `srun -l`
# says: 0: compute-\d+-\d+
# says: 1: compute-\d+-\d+
# says: 2 nodes, 2 tasks, first.job
cat > first.job <<'END'
#!/bin/bash
#SBATCH --job-name=first.job
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=00:01:00
#SBATCH --output=%x-%j.out
#SBATCH --error=%x-%j.err
srun -l hostname | sort
echo "$SLURM_JOB_NUM_NODES nodes, $SLURM_NTASKS tasks, $SLURM_JOB_NAME"
END
job=$(sbatch --parsable --wait first.job)
cat first.job-$job.out first.job-$job.err
