"""Jobs that wait for what a NodeSet could have: few Events, and few reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.figures.nodes import PartitionRow
from sunkpy.core.figures.statistics import Statistics
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import SlurmNode
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.kube.trim import trim_slurmd
from sunkpy.syncer.figures import Read
from sunkpy.syncer.queue_watch import QueueWatch
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering

WAITS = JobRow(id=1, state=frozenset({"PENDING"}), reason="Resources", partition="main", tasks=41)
DRAINED = SlurmNode(name="n1", state=frozenset({"IDLE", "DRAIN"}))
READ = Read(
    nodes={"n1": DRAINED, "n2": SlurmNode(name="n2", state=frozenset({"IDLE"}))},
    jobs=[WAITS],
    unread_jobs=0,
    partitions=[PartitionRow(name="main", nodes=("n1", "n2"))],
    statistics=Statistics(),
)
MINUTE_S = 60.0


class Queue:
    """Slurm is read each half minute, by a clock of its own."""

    def __init__(self, api: Apiserver, kube: Kube) -> None:
        self.api, self.kube, self.now_s = api, kube, 0.0
        self.pods = Informer(kube, paths.pods("slurm"), Pod, keep=trim_slurmd)
        self.watch = self.lead()

    def lead(self) -> QueueWatch:
        """A new leader, which remembers nothing."""
        events = EventRecorder(self.kube, component="syncer", instance="a")
        self.watch = QueueWatch(self.kube, events, namespace="slurm", pods=self.pods, clock=lambda: self.now_s)
        return self.watch

    async def lasts(self, minutes: float, read: Read = READ) -> list[tuple[str, str]]:
        """What is reported in that time, of which NodeSet."""
        before = len(self.api.events())
        for _ in range(int(minutes * 2)):
            self.now_s += MINUTE_S / 2
            await self.watch.check(read)
        return [(event["regarding"]["name"], event["note"]) for event in self.api.events()[before:]]


def slurmd(name: str, nodeset: str, **annotations: str) -> dict[str, object]:
    owner = {"apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "name": nodeset, "uid": nodeset}
    labels = {names.LABEL_NODESET: nodeset, names.LABEL_SLURM_NODE: name}
    meta = {"name": name, "namespace": "slurm", "labels": labels, "annotations": annotations}
    return {"metadata": meta | {"ownerReferences": [owner | {"controller": True}]}, "spec": {}, "status": {}}


@pytest.fixture
async def queue(tmp_path) -> AsyncIterator[Queue]:
    api = Apiserver()
    for name, nodeset in (("n1", "gpu"), ("n2", "cpu")):
        api.put("pods", slurmd(name, nodeset))
        status = {"desiredNumberScheduled": 1, "numberFeasible": 1}
        api.put("nodesets", {"metadata": {"name": nodeset, "namespace": "slurm"}, "status": status})
    async with answering(api.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        queue = Queue(api, kube)
        task = asyncio.create_task(queue.pods.run())
        await queue.pods.synced.wait()
        yield queue
        task.cancel()
        await asyncio.wait({task})


TEXT = "41 jobs wait for nodes of partition main. Nodes of this NodeSet: 1 drained"


async def test_the_nodeset_with_a_drained_node_has_the_event_after_ten_minutes(queue: Queue) -> None:
    assert await queue.lasts(10) == []
    assert await queue.lasts(1) == [("gpu", TEXT)]
    (event,) = queue.api.events()
    assert (event["type"], event["reason"], event["regarding"]["kind"]) == ("Normal", "JobsWaiting", "NodeSet")


async def test_what_lasts_is_reported_each_half_hour(queue: Queue) -> None:
    for tasks in (41, 42, 43):
        read = msgspec.structs.replace(READ, jobs=[msgspec.structs.replace(WAITS, tasks=tasks)])
        assert [note.split()[0] for _, note in await queue.lasts(30, read)] == [str(tasks)]


async def test_a_new_leader_repeats_nothing_at_once(queue: Queue) -> None:
    await queue.lasts(11)
    queue.lead()
    assert await queue.lasts(9) == []


async def test_a_queue_that_was_short_for_once_has_to_last_again(queue: Queue) -> None:
    await queue.lasts(9)
    await queue.lasts(1, msgspec.structs.replace(READ, jobs=[]))
    assert await queue.lasts(9) == []


async def test_a_node_that_sunkpy_removes_or_makes_again_is_not_reported(queue: Queue) -> None:
    pod = slurmd("n1", "gpu", **{names.ANNOTATION_PENDING_DELETION: "2026-11-21T00:00:00Z/rollout"})
    queue.api.put("pods", pod)
    await queue.api.until(lambda: names.ANNOTATION_PENDING_DELETION in queue.pods.get("slurm", "n1").annotations)
    assert await queue.lasts(30) == []


async def test_before_all_jobs_are_read_nothing_is_reported(queue: Queue) -> None:
    assert await queue.lasts(30, msgspec.structs.replace(READ, jobs=None)) == []


async def test_nodesets_that_cannot_be_read_are_tried_again(queue: Queue) -> None:
    queue.api.forbidden.add("nodesets")
    assert await queue.lasts(11) == []
    queue.api.forbidden.clear()
    assert await queue.lasts(10) == [("gpu", TEXT)]


async def test_nodesets_are_read_each_ten_minutes_while_many_jobs_wait(queue: Queue) -> None:
    few = msgspec.structs.replace(READ, jobs=[msgspec.structs.replace(WAITS, tasks=9)])
    await queue.lasts(60, few)
    assert queue.api.asked[paths.nodesets("slurm")] == 0
    await queue.lasts(61)
    assert queue.api.asked[paths.nodesets("slurm")] == 6
