# source: NERSC, docs.nersc.gov/machinelearning/pytorch; PyTorch, docs.pytorch.org/docs/stable/distributed.html (env://)
# does: start PyTorch with `srun python` alone: MASTER_ADDR is the name of the first node, RANK is SLURM_PROCID and WORLD_SIZE is SLURM_NTASKS
# needs: software
# limit: 180
# says: sum of ranks 3
cat > sum.py <<'END'
import os
import torch, torch.distributed as dist

os.environ["RANK"], os.environ["WORLD_SIZE"] = os.environ["SLURM_PROCID"], os.environ["SLURM_NTASKS"]
dist.init_process_group("gloo", init_method="env://")
rank = torch.tensor(float(dist.get_rank()))
dist.all_reduce(rank)
if dist.get_rank() == 0:
    print(f"sum of ranks {rank.item():.0f}")
END
cat > sum.job <<'END'
#!/bin/bash
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --mem=1G
#SBATCH --time=3
. ~/software/env
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) MASTER_PORT=29500
srun python3 sum.py
END
sbatch --wait --output=said sum.job > /dev/null || { cat said; exit 1; }
grep sum said
