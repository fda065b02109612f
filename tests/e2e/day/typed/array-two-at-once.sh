# source: CSC, docs.csc.fi/computing/running/array-jobs
# does: submit an array of which two tasks run at once (`--array=1-6%2`); each task reads its own line of a file and writes its own output file (%A, %a)
# says: 6 files
# says: apple beech cedar elder fir gean
# says: most at once: [12]
printf '%s\n' apple beech cedar elder fir gean > names
mkdir now
job=$(sbatch --parsable --wait --array=1-6%2 --time=1 --output=part_%A_%a.out <<'END'
#!/bin/bash
touch now/$SLURM_ARRAY_TASK_ID
ls now | wc -l >> at-once
sed -n "${SLURM_ARRAY_TASK_ID}p" names
sleep 1
rm now/$SLURM_ARRAY_TASK_ID
END
)
echo $(ls part_${job}_*.out | wc -l) files
cat part_${job}_{1..6}.out | paste -sd ' '
echo "most at once: $(sort -n at-once | tail -n 1)"
