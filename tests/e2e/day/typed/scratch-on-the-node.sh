# source: CSC, docs.csc.fi/computing/running/creating-job-scripts (local storage); NERSC, docs.nersc.gov/jobs/best-practices
# does: copy files to a folder in /tmp of the node, copy results home in a trap, and remove the folder
# says: 1000 lines sorted
# says: nothing left
seq 1000 | shuf > data
cat > sorts.job <<'END'
#!/bin/bash
#SBATCH --time=1
scratch=$(mktemp -d /tmp/$USER.XXXXXX)
trap 'cp $scratch/sorted $SLURM_SUBMIT_DIR; rm -r $scratch' EXIT
cp data $scratch && cd $scratch
sort -n data > sorted
END
sbatch --wait --output=said sorts.job > /dev/null
seq 1000 | cmp - sorted && echo "$(wc -l < sorted) lines sorted"
srun --time=1 bash -c 'ls -d /tmp/$USER.?????? 2> /dev/null || echo nothing left'
