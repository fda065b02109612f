# source: PyTorch Lightning, lightning.ai/docs/pytorch/stable/clouds/cluster_advanced.html
# does: train with PyTorch Lightning by `srun python train.py`: `Trainer(num_nodes=2)` reads ranks and the master from Slurm's variables
# needs: software
# limit: 240
# says: 2 ranks, 2 nodes, trained
cat > train.py <<'END'
import socket
import torch
import lightning

class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, x):
        return ((self.layer(x) - x.sum(1, keepdim=True)) ** 2).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)

trainer = lightning.Trainer(
    accelerator="cpu", devices=1, num_nodes=2, strategy="ddp", max_epochs=1, logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(Line(), torch.utils.data.DataLoader(torch.randn(64, 4), batch_size=8))
hosts = [None] * trainer.world_size
torch.distributed.all_gather_object(hosts, socket.gethostname())
if trainer.is_global_zero:
    print(f"{trainer.world_size} ranks, {len(set(hosts))} nodes, {'trained' if trainer.global_step == 4 else trainer.global_step}")
END
cat > train.job <<'END'
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --mem=2G
#SBATCH --time=4
. ~/software/env
export OMP_NUM_THREADS=1
srun python3 train.py
END
sbatch --wait --output=said train.job > /dev/null || { cat said; exit 1; }
grep 'ranks,' said || cat said
