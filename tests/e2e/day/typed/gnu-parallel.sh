# source: ULHPC, hpc-docs.uni.lu/jobs/gnu-parallel
# does: run many steps in a job with GNU parallel: `parallel --max-procs $SLURM_NTASKS srun --nodes=1 --ntasks=1 --exact`, with `--joblog`
# needs: software
# limit: 120
# says: 8 tasks, 2 nodes, 8 in the log
cat > tasks.job <<'END'
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=2
. ~/software/env
parallel --joblog run.log --max-procs $SLURM_NTASKS srun --nodes=1 --ntasks=1 --exact --mem-per-cpu=50 bash -c "'hostname; : {}'" ::: {1..8} > hosts
echo "$(wc -l < hosts) tasks, $(sort -u hosts | wc -l) nodes, $(($(wc -l < run.log) - 1)) in the log"
END
sbatch --wait --output=said tasks.job > /dev/null || { cat said; exit 1; }
grep tasks said
