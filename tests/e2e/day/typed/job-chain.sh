# source: Slurm, slurm.schedmd.com/sbatch.html (`--dependency`)
# does: submit a job that submits its successor, until the work is done
# says: part 1
# says: part 2
# says: part 3
cat > chain.job <<'END'
#!/bin/bash
#SBATCH --time=1 --output=said --open-mode=append
part=${1:-1}
echo part $part
[ $part = 3 ] || sbatch --dependency=afterok:$SLURM_JOB_ID chain.job $((part + 1)) > /dev/null
END
sbatch chain.job > /dev/null
until grep -sq 'part 3' said; do sleep 0.5; done
cat said
