# source: ULHPC, hpc-docs.uni.lu/jobs/steps
# does: run several steps of a job at once with `srun --exact … &` and `wait`
# says: 4
cat > many.job <<'END'
#!/bin/bash
#SBATCH --nodes=2 --ntasks=4 --time=1
mkdir now
for i in 1 2 3 4; do
  srun --nodes=1 --ntasks=1 --exact --mem-per-cpu=50 bash -c "touch now/$i; until [ \$(ls now | wc -l) = 4 ]; do sleep 0.1; done; hostname" >> hosts &
done
wait
wc -l < hosts
END
sbatch --wait --output=said many.job > /dev/null
cat said
