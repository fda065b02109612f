# source: Slurm, slurm.schedmd.com/sbcast.html
# does: copy a file to /tmp of all nodes of a job with `sbcast`
# says: same on 2
head -c 1000000 /dev/urandom > data
cat > copies.job <<'END'
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=1
sbcast --force data /tmp/$USER.$SLURM_JOB_ID.data
srun bash -c 'cmp data /tmp/$USER.$SLURM_JOB_ID.data && echo same; rm /tmp/$USER.$SLURM_JOB_ID.data' | sort | uniq -c
END
sbatch --wait --output=said copies.job > /dev/null
awk '{ print $2, "on", $1 }' said
