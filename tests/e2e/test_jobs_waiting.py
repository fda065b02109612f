"""Jobs that wait for a node which Slurm cannot use: what a real slurmctld says of them becomes the NodeSet's Event."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from demo.stack import Stack
from devcluster.waiting import wait
from sunkpy.core.model.objects import Pod
from sunkpy.core.nodeset.jobs_waiting import MANY_JOBS, WAITED_S
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.slurm import NodeCache
from sunkpy.syncer.figures import FigureFeed
from sunkpy.syncer.queue_watch import QueueWatch
from sunkpy.syncer.settings import FigureSettings
from tests.e2e.slurm_access import slurm_client

pytestmark = pytest.mark.e2e

EVENT = f"JobsWaiting: {MANY_JOBS} jobs wait for nodes of partition low. Nodes of this NodeSet: 1 drained"


async def test_a_queue_that_waits_for_a_drained_node_is_reported_on_its_nodeset(stack: Stack) -> None:
    """By the syncer's own parts, whose clock goes on by the minutes for which it watches a queue."""
    before = stack.events(stack.namespace, stack.nodeset).count(EVENT)
    drained = next(iter(stack.slurm_nodes()))
    stack.scontrol("update", f"nodename={drained}", "state=drain", "reason=fan")
    waiting = stack.sbatch(f"--array=1-{MANY_JOBS}", "--nodes=3", script="true")
    clock = itertools.count(step=WAITED_S)
    try:
        reason = lambda: stack.squeue(f"--jobs={waiting}", "--format=%r")  # noqa: E731
        # Before slurmctld has tried the first of them it may be ReqNodeNotAvail. The long text stands for Resources.
        wait(lambda: reason().startswith(("Resources", "Nodes required")), timeout_s=60, what="a reason")
        async with await Kube.connect(stack.kubeconfig) as kube, slurm_client(stack) as slurm:
            pods = Informer(kube, paths.pods(stack.namespace), Pod)
            informing = asyncio.create_task(pods.run())
            await pods.synced.wait()
            events = EventRecorder(kube, component="e2e", instance="e2e")
            watch = QueueWatch(kube, events, namespace=stack.namespace, pods=pods, clock=lambda: next(clock))
            nodes = NodeCache(slurm)
            await nodes.refresh()
            feed = FigureFeed(slurm, nodes, FigureSettings(), scheduler_user="k8s")
            feed.add_listener(watch.check)
            for _ in range(3):
                await feed.refresh()
            informing.cancel()
    finally:
        stack.cancel_jobs([waiting])
        stack.scontrol("update", f"nodename={drained}", "state=resume")
    assert stack.events(stack.namespace, stack.nodeset).count(EVENT) == before + 1
