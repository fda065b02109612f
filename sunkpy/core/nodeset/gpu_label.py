"""What a Node's label says of its GPUs, if NVIDIA's GPU feature discovery writes it (`nvidia.com/gpu.product`).

Its value is `NVIDIA-H100-80GB-HBM3`, or `NVIDIA-A100-SXM4-40GB-MIG-1g.5gb` if all GPUs are MIG slices of one profile.
The label `nvidia.com/gpu.count` is the number of GPUs of this product. If a node has several products, the label names
one of them, and changes between them. If the device plugin offers each GPU several times, the node offers more GPUs
than that number. A discovery that restarts removes its labels for a while.

Source: NVIDIA/k8s-device-plugin internal/lm/resource.go, mig-strategy.go (newGPULabelers), issue 796.
"""

from __future__ import annotations

import re

from sunkpy.core.model.objects import Node


def labelled_type(node: Node, label: str) -> str:
    """Return the GPU type that the Node's label says, in lower case; for MIG slices it is their profile. Empty if the
    Node has no such label.
    """
    return re.sub(r".*-mig-", "", node.labels.get(label, "").lower())


def explain_unclear(node: Node, label: str, offered: int) -> str:
    """Return why the label does not give the type of all GPUs that the node offers; empty if it does."""
    if not node.labels.get(label):
        return f"has no label {label}"
    counts = re.sub(r"\.product$", ".count", label)
    counted = node.labels.get(counts, "") if counts != label else ""
    if counted.isdecimal() and int(counted) < offered:
        return f"label {counts} counts {counted}, but {offered} are offered: several models, or time-slicing?"
    return ""


def agrees(said: str, type_: str) -> bool:
    """True if the GPU type stands in a label's value as whole words: `h100` in `nvidia-h100-80gb-hbm3`, not `h10`."""
    words, whole = (text.lower().replace("_", "-") for text in (type_, said))
    return f"-{words}-" in f"-{whole}-"
