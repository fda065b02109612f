# source: PyTorch, docs.pytorch.org/docs/stable/distributed.html
# does: `torchrun` with the backend nccl
# cannot: no GPU; with gloo it runs
