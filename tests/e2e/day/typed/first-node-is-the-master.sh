# source: PyTorch, github.com/pytorch/examples, distributed/ddp-tutorial-series/slurm
# does: set `MASTER_ADDR` to the first name of `scontrol show hostnames`: rank 0 is on that node, the name resolves, and the other ranks reach its port
# says: 0 of 2 is the master
# says: 1 of 2 heard hello
cat > master.job <<'END'
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=1
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) MASTER_PORT=29400
srun bash rank | sort
END
cat > rank <<'END'
if [ $SLURM_PROCID = 0 ]; then
  [ $(hostname) = $MASTER_ADDR ] && echo "0 of $SLURM_NTASKS is the master"
  echo hello | timeout 20 nc -l -N -p $MASTER_PORT
else
  until heard=$(nc -w 5 $MASTER_ADDR $MASTER_PORT < /dev/null) && [ -n "$heard" ]; do sleep 0.2; done
  echo "$SLURM_PROCID of $SLURM_NTASKS heard $heard"
fi
END
sbatch --wait --output=said master.job > /dev/null
cat said
