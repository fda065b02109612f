# source: DeepSpeed, deepspeed.ai/getting-started; github.com/deepspeedai/DeepSpeed, deepspeed/launcher
# does: start a training with `deepspeed --hostfile … --launcher slurm` on two nodes, over gloo
# needs: software
# limit: 420
# says: 2 ranks on 2 nodes agree, the loss falls
cat > train.py <<'END'
import os, socket
import torch, torch.distributed as dist
import deepspeed

os.environ["RANK"], os.environ["WORLD_SIZE"] = os.environ["SLURM_PROCID"], os.environ["SLURM_NTASKS"]
os.environ["LOCAL_RANK"] = os.environ["SLURM_LOCALID"]
deepspeed.init_distributed("gloo", auto_mpi_discovery=False)
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
config = {"train_micro_batch_size_per_gpu": 16, "zero_optimization": {"stage": 0}}
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
torch.manual_seed(dist.get_rank())
losses = []
for _ in range(20):
    x = torch.randn(16, 4)
    loss = ((engine(x) - x.sum(1, keepdim=True)) ** 2).mean()
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
weights = [torch.empty(1, 4) for _ in range(dist.get_world_size())]
dist.all_gather(weights, engine.module.weight.detach())
hosts = [None] * dist.get_world_size()
dist.all_gather_object(hosts, socket.gethostname())
if dist.get_rank() == 0:
    agree = all(torch.equal(weights[0], each) for each in weights)
    print(f"{len(hosts)} ranks on {len(set(hosts))} nodes {'agree' if agree else 'differ'}, the loss {'falls' if sum(losses[-5:]) < sum(losses[:5]) else 'does not fall'}")
END
cat > train.job <<'END'
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --mem=2G
#SBATCH --time=7
. ~/software/env
export DS_ACCELERATOR=cpu OMP_NUM_THREADS=1 MASTER_PORT=29501
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
scontrol show hostnames "$SLURM_JOB_NODELIST" | sed 's/$/ slots=1/' > hostfile
deepspeed --hostfile hostfile --launcher slurm --no_ssh_check --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" train.py
END
sbatch --wait --output=said train.job > /dev/null || { cat said; exit 1; }
grep ranks said
