"""What a label of a Node says of its GPUs, as NVIDIA's GPU feature discovery writes `nvidia.com/gpu.product`.

`NVIDIA-H100-80GB-HBM3`, or `NVIDIA-A100-SXM4-40GB-MIG-1g.5gb` where all are MIG slices of one profile. `….count` beside
it is of this product. Of several products on a node the label names one, and by turns. Where the device plugin offers
each GPU several times, more are offered than counted. A discovery that restarts takes its labels away for a while.

Source: NVIDIA/k8s-device-plugin internal/lm/resource.go, mig-strategy.go (newGPULabelers), issue 796.
"""

from __future__ import annotations

import re

from sunkpy.core.model.objects import Node


def labelled_type(node: Node, label: str) -> str:
    """The value as a type of Slurm's, which is lower case; of MIG slices their profile. Empty without a label."""
    return re.sub(r".*-mig-", "", node.labels.get(label, "").lower())


def explain_unclear(node: Node, label: str, offered: int) -> str:
    """Why the label does not say the type of all GPUs that the node offers; empty when it does."""
    if not node.labels.get(label):
        return f"has no label {label}"
    counts = re.sub(r"\.product$", ".count", label)
    counted = node.labels.get(counts, "") if counts != label else ""
    if counted.isdecimal() and int(counted) < offered:
        return f"label {counts} says {counted}, and {offered} are offered: several models, or time-slicing?"
    return ""


def agrees(said: str, type_: str) -> bool:
    """The type is a part of what a label says, in whole words: h100 of nvidia-h100-80gb-hbm3, and not h10."""
    words, whole = (text.lower().replace("_", "-") for text in (type_, said))
    return f"-{words}-" in f"-{whole}-"
