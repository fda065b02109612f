# source: Slurm, slurm.schedmd.com/srun.html
# does: choose which rank runs on which node, with `--distribution=block` or `cyclic`, `--ntasks-per-node` and `--relative`
# says: block 0 0 1 1
# says: cyclic 0 1 0 1
# says: relative 1
cat > order.job <<'END'
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --time=1
for way in block cyclic; do
  echo $way $(srun --label --distribution=$way bash -c 'echo $SLURM_NODEID' | sort -n | cut -d ' ' -f 2)
done
srun --nodes=1 --ntasks=1 --relative=1 bash -c '[ $(hostname) = $(scontrol show hostnames $SLURM_JOB_NODELIST | tail -n 1) ] && echo relative 1'
END
sbatch --wait --output=said order.job > /dev/null
cat said
