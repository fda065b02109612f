# source: PyTorch, docs.pytorch.org/docs/stable/elastic/run.html
# does: start PyTorch with `python -m torch.distributed.run --node_rank $SLURM_NODEID --master_addr NAME` (static rendezvous)
# needs: software
# limit: 180
# says: sum of ranks 6
cat > sum.py <<'END'
import torch, torch.distributed as dist

dist.init_process_group("gloo")
rank = torch.tensor(float(dist.get_rank()))
dist.all_reduce(rank)
if dist.get_rank() == 0:
    print(f"sum of ranks {rank.item():.0f}")
END
cat > sum.job <<'END'
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --mem=1G
#SBATCH --time=3
. ~/software/env
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) MASTER_PORT=6000 OMP_NUM_THREADS=1
srun bash -c 'python3 -m torch.distributed.run --nproc_per_node 2 --nnodes $SLURM_NNODES --node_rank $SLURM_NODEID \
  --master_addr $MASTER_ADDR --master_port $MASTER_PORT sum.py'
END
sbatch --wait --output=said sum.job > /dev/null || { cat said; exit 1; }
grep sum said
