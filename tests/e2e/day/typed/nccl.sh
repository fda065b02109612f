# source: PyTorch, docs.pytorch.org/docs/stable/distributed.html
# does: train with `torchrun` and the backend nccl
# cannot: the test nodes have no GPU; the same training runs with gloo
