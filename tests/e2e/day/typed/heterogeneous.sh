# source: Slurm, slurm.schedmd.com/heterogeneous_jobs.html
# does: submit a heterogeneous job of two components, and run a step on both (`srun --het-group=0,1`)
# says: 0: 2 parts
# says: 1: 2 parts
cat > het.job <<'END'
#!/bin/bash
#SBATCH --ntasks=1 --mem=50 --time=1
#SBATCH hetjob
#SBATCH --ntasks=1 --mem=100 --time=1
srun --label --het-group=0,1 bash -c 'echo $SLURM_HET_SIZE parts' | sort
END
sbatch --wait --output=said het.job > /dev/null
cat said
