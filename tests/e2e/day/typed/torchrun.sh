# source: PyTorch, github.com/pytorch/examples, distributed/ddp-tutorial-series/slurm; docs.pytorch.org/docs/stable/elastic/run.html
# does: train a model by 4 ranks over gloo with `srun torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint <ip of the first node>`
# needs: software
# limit: 180
# says: 4 ranks on 2 nodes agree, the loss falls
cat > train.py <<'END'
import os, socket
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(dist.get_rank())
losses = []
for _ in range(20):
    x = torch.randn(16, 4)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    losses.append(loss.item())
weights = [torch.empty(1, 4) for _ in range(dist.get_world_size())]
dist.all_gather(weights, model.module.weight.detach())
hosts = [None] * dist.get_world_size()
dist.all_gather_object(hosts, socket.gethostname())
if dist.get_rank() == 0:
    agree = all(torch.equal(weights[0], each) for each in weights)
    print(f"{len(hosts)} ranks on {len(set(hosts))} nodes {'agree' if agree else 'differ'}, the loss {'falls' if losses[-1] < losses[0] else 'does not fall'}")
dist.destroy_process_group()
END
cat > train.job <<'END'
#!/bin/bash
#SBATCH --job-name=multinode-example
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=2
#SBATCH --mem=1G
#SBATCH --time=3
. ~/software/env
nodes=( $(scontrol show hostnames $SLURM_JOB_NODELIST) )
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "${nodes[0]}" hostname --ip-address)
export OMP_NUM_THREADS=1
srun torchrun --nnodes 2 --nproc_per_node 2 --rdzv_id $RANDOM --rdzv_backend c10d --rdzv_endpoint $head_node_ip:29500 train.py
END
sbatch --wait --output=said train.job > /dev/null || { cat said; exit 1; }
grep ranks said
