# source: ARCHER2, docs.archer2.ac.uk/user-guide/scheduler (multiple srun commands in a job script)
# does: divide two nodes into subjobs of one core: for each name of `scontrol show hostnames` some `srun --nodelist=NODE --exact --mem=50M … &`, then `wait`; `SRUN_CPUS_PER_TASK` hands on the job's `--cpus-per-task`
# says: 2 compute-\d+-\d+
# says: 2 compute-\d+-\d+
# says: 4 as named
cat > subjobs.job <<'END'
#!/bin/bash
#SBATCH --job-name=subjobs
#SBATCH --time=0:1:0
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=1
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK OMP_NUM_THREADS=1
for node in $(scontrol show hostnames $SLURM_JOB_NODELIST); do
  for i in 1 2; do
    srun --nodelist=$node --nodes=1 --ntasks=1 --ntasks-per-node=1 --exact --mem=50M hostname > placement_${node}_$i.txt &
  done
done
wait
END
sbatch --wait --output=said subjobs.job > /dev/null || { cat said; exit 1; }
cat placement_*.txt | sort | uniq -c | awk '{ print $1, $2 }'
echo $(for file in placement_*; do grep -o "$(echo $file | cut -d_ -f2)" $file; done | wc -l) as named
