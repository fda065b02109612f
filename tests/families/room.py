"""The cluster for workloads larger than the machine: nodes that believe to have more cpus and GPUs than there are.

What is pretended: each kubelet counts cpus that are not there (`devcluster.node.pretend_cpus`), sunkpy's device plugin
hands out GPUs that are not there, and each node's memory is all of the machine's. Slurm gets the same sizes from the
operator, which reads them from the nodes. The containers sleep, so nobody misses what is not there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from demo import story
from demo.bring_up import bring_up
from demo.stack import Stack
from devcluster import Cluster

NODES: Final = 4
CPUS: Final = 16
GPUS: Final = 16
# Three racks, as exclusive placement wants one for each of its Jobs.
RACKS: Final = {"node-1": "a", "node-2": "b", "node-3": "c", "node-4": "c"}
RACK_LABEL: Final = "topology.kubernetes.io/rack"


def cluster_name() -> str:
    """The cluster of this room: beside that of the demo, whose nodes are as large as the machine."""
    return f"{os.environ.get('SUNKPY_CLUSTER', 'sunkpy')}-room"


def bring_up_room(tell: Callable[[str], None]) -> tuple[Stack, Cluster]:
    """The stack on a cluster with room; seconds when it is there."""
    cluster = Cluster(cluster_name(), progress=tell)
    racks = {node: {RACK_LABEL: rack} for node, rack in RACKS.items()}
    cluster.up(NODES, cpus=CPUS, labels=racks)
    suite = os.environ.get("SLURM_SUITE", "trixie")
    stack = bring_up(suite=suite, name=cluster.name, nodes=NODES, gpus=GPUS, tell=tell)
    story.reset(stack)
    return stack, cluster
