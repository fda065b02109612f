"""What jobs lack of a NodeSet, on its status: few writes, and none to Slurm."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from sunkpy.core import names
from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.figures.nodes import PartitionRow
from sunkpy.core.figures.statistics import Statistics
from sunkpy.core.growth.waiting import WaitingJob
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.model.times import rfc3339
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.kube.trim import trim_slurmd
from sunkpy.syncer.figures import Read
from sunkpy.syncer.growth import JOINS_WITHIN, GrowthWriter
from sunkpy.syncer.metrics import SyncerMetrics
from sunkpy.syncer.settings import FigureSettings
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering
from tests.unit.syncer.test_syncer import NAME, World
from tests.unit.syncer.test_syncer import world as world

OFFER = "CPUs=8 RealMemory=4096 Feature=gpu"
NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
READ = Read(nodes={}, jobs=[], unread_jobs=0, partitions=[], statistics=Statistics())
REFERENCE = {"apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "name": "gpu", "uid": "u", "controller": True}


def waits(id: int = 7, *, nodes: int = 1, cpus: int = 8) -> JobRow:
    asked = WaitingJob(id=id, label=str(id), partitions=("main",), nodes=nodes, per_node={"cpu": cpus * 1000})
    return JobRow(id=id, state=frozenset({"PENDING"}), partition="main", waits=asked)


class Pool:
    """A NodeSet that may grow to a hundred nodes, and what Slurm answers."""

    def __init__(self, api: Apiserver, kube: Kube) -> None:
        self.api, self.kube, self.now = api, kube, NOON
        self.hurries: list[bool] = []
        self.pods = Informer(kube, paths.pods("slurm"), Pod, keep=trim_slurmd)
        self.nodesets = Informer(kube, paths.nodesets("slurm"), NodeSet)
        self.metrics = SyncerMetrics(CollectorRegistry())
        self.growth = self.lead()

    def lead(self) -> GrowthWriter:
        """A new leader, which remembers nothing."""
        self.growth = GrowthWriter(
            self.kube,
            EventRecorder(self.kube, component="syncer", instance="a"),
            self.metrics,
            cluster="c1",
            nodesets=self.nodesets,
            offered=lambda: {"gpu": OFFER},
            pods=self.pods,
            read_soon=lambda: self.hurries.append(True),
            now=lambda: self.now,
        )
        return self.growth

    async def wish(self, **growth: int | None) -> None:
        self.api.change("nodesets", "slurm", "gpu", {"spec": {"growth": growth}})
        await self.api.until(lambda: self.nodesets.get("slurm", "gpu").spec.growth.potential == growth["potential"])

    async def mark(self, name: str, cause: str) -> None:
        """The operator wants its slurmd pod gone."""
        token = {names.ANNOTATION_PENDING_DELETION: f"2026-11-28T12:00:00+00:00/{cause}"}
        self.api.change("pods", "slurm", name, {"metadata": {"annotations": token}})
        await self.api.until(lambda: names.ANNOTATION_PENDING_DELETION in self.pods.get("slurm", name).annotations)

    async def add_pod(self, name: str, *, check_s: int | None = None) -> None:
        """A node has come, and its slurmd pod starts; `check_s`: its machine is checked first."""
        labels = {names.LABEL_NODESET: "gpu", names.LABEL_SLURM_NODE: name}
        told = {} if check_s is None else {names.ANNOTATION_VERIFY_SECONDS: str(check_s)}
        meta = {"name": name, "namespace": "slurm", "labels": labels, "annotations": told}
        meta["ownerReferences"] = [REFERENCE]
        self.api.put("pods", {"metadata": {**meta, "creationTimestamp": rfc3339(self.now)}, "spec": {}, "status": {}})
        await self.api.until(lambda: self.pods.get("slurm", name) is not None)

    async def answer(self, *jobs: JobRow, nodes: tuple[str, ...] = (), **state: Any) -> dict[str, Any] | None:
        """Slurm answers with these jobs and idle nodes; what the NodeSet says then."""
        fields = {"cpus": 8, "memory_mib": 4096, "features": frozenset({"gpu"}), "state": frozenset({"IDLE"}), **state}
        known = {name: SlurmNode(name=name, **fields) for name in nodes}
        main = PartitionRow(name="main", nodes=(*nodes, "gpu_potential_1a2b3c_1"))
        await self.growth.check(msgspec.structs.replace(READ, nodes=known, jobs=list(jobs), partitions=[main]))
        return self.said

    @property
    def said(self) -> dict[str, Any] | None:
        body = self.api.find("nodesets", "gpu")
        assert body is not None
        return body.get("status", {}).get("growth")

    @property
    def writes(self) -> int:
        return self.api.patched.count("gpu/status")

    @property
    def metric(self) -> float | None:
        return self.metrics.wanted_nodes.labels("gpu")._value.get() if self.metrics.wanted_nodes._metrics else None


@pytest.fixture
async def pool(tmp_path) -> AsyncIterator[Pool]:
    api = Apiserver()
    spec = {"cluster": "c1", "template": {}, "growth": {"potential": 100}}
    api.put("nodesets", {"metadata": {"name": "gpu", "namespace": "slurm"}, "spec": spec})
    async with answering(api.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        pool = Pool(api, kube)
        tasks = {asyncio.create_task(each.run()) for each in (pool.pods, pool.nodesets)}
        await pool.pods.synced.wait()
        await pool.nodesets.synced.wait()
        yield pool
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_nodes_are_asked_for_once(pool: Pool) -> None:
    assert await pool.answer(waits(nodes=90)) is None, "one answer alone asks for nothing"
    said = await pool.answer(waits(nodes=90))
    since = {"reason": "", "since": "2026-11-28T12:00:00Z", "held": False, "seen": ""}
    assert said == {"wantedNodes": 90, "countedNodes": 0, "requests": [{"job": "7", "nodes": 90}], **since}
    assert (pool.writes, pool.metric) == (1, 90)
    assert len(pool.hurries) == 1, "the second answer comes soon"
    for _ in range(3):
        await pool.answer(waits(nodes=90))
    assert len(pool.hurries) == 1
    assert pool.writes == 1, "what is said already is not written again"


async def test_a_node_that_joins_is_less_to_ask_for_before_slurm_answers_again(pool: Pool) -> None:
    task = asyncio.create_task(pool.growth.run())
    for _ in range(2):
        await pool.answer(waits(nodes=3))
    await pool.add_pod("gpu-1")
    await pool.api.until(lambda: pool.said == {**pool.said, "wantedNodes": 2, "requests": [{"job": "7", "nodes": 2}]})
    assert (await pool.answer(waits(nodes=3)))["wantedNodes"] == 2, "it joins, and counts"
    assert (await pool.answer(waits(nodes=3), nodes=("gpu-1",)))["wantedNodes"] == 2, "it has come"
    task.cancel()
    await asyncio.wait({task})
    assert pool.metric is None, "a leader that goes says nothing more"


async def test_a_node_that_never_comes_is_wanted_again(pool: Pool) -> None:
    await pool.add_pod("gpu-1")
    for _ in range(2):
        assert await pool.answer(waits()) is None, "it is expected"
    pool.now += JOINS_WITHIN + timedelta(seconds=1)
    await pool.answer(waits())
    said = await pool.answer(waits())
    assert said is not None
    assert said["wantedNodes"] == 1


async def test_a_node_that_checks_its_machine_first_is_expected_for_as_long(pool: Pool) -> None:
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        await pool.add_pod(name, check_s=1800)
    pool.now += JOINS_WITHIN + timedelta(seconds=1799)
    for _ in range(2):
        assert await pool.answer(waits()) is None
    pool.now += timedelta(seconds=2)
    said = await pool.answer(waits())
    assert said is not None
    assert "3 new nodes have not registered" in said["reason"]


async def test_while_three_nodes_that_came_do_not_register_none_more_is_wanted(pool: Pool) -> None:
    came = ("gpu-1", "gpu-2", "gpu-3")
    for name in came:
        await pool.add_pod(name)
    pool.now += JOINS_WITHIN + timedelta(seconds=1)
    for _ in range(3):
        said = await pool.answer(waits())
    assert said == {
        "wantedNodes": 0,
        "countedNodes": 0,
        "requests": [],
        "since": "",
        "held": False,
        "seen": "",
        "reason": "no more nodes are wanted while 3 new nodes have not registered in Slurm within ten minutes: "
        "gpu-[1-3]. Look at their slurmd pods: kubectl describe, kubectl logs",
    }
    assert await pool.answer() is None, "nobody waits for one"
    for _ in range(2):
        said = await pool.answer(waits(), nodes=("gpu-1",), state=frozenset({"DOWN"}))
    assert said is not None
    assert said["wantedNodes"] == 1, "one has registered, whatever happened to it then"
    for _ in range(2):
        said = await pool.answer(waits(), nodes=came, state=frozenset({"IDLE", "INVALID_REG"}))
    assert said is not None
    assert said["wantedNodes"] == 0, "Slurm has refused what they registered with"


@pytest.mark.parametrize(("cause", "wanted"), [("rollout", None), ("verification", 1), ("scale-down", 1)])
async def test_a_node_that_a_roll_makes_anew_is_not_bought_again(pool: Pool, cause: str, wanted: int | None) -> None:
    await pool.add_pod("gpu-1")
    await pool.mark("gpu-1", cause)
    for _ in range(2):
        said = await pool.answer(waits(), nodes=("gpu-1",), reason="k8s: scale", state=frozenset({"IDLE", "DRAIN"}))
    assert (said or {}).get("wantedNodes") == wanted


@pytest.mark.parametrize(("cause", "wanted"), [("rollout", None), ("verification", None), ("scale-down", 1)])
async def test_a_node_that_comes_again_is_one_of_those_that_may_be(pool: Pool, cause: str, wanted: int | None) -> None:
    await pool.wish(potential=1)
    await pool.add_pod("gpu-1")
    await pool.mark("gpu-1", cause)
    busy = {"alloc_cpus": 8, "state": frozenset({"ALLOCATED", "DRAIN"})}
    for _ in range(2):
        said = await pool.answer(waits(), nodes=("gpu-1",), reason="k8s: scale", **busy)
    assert ((said or {}).get("wantedNodes") or None) == wanted


async def test_it_ends_when_the_job_has_its_nodes_and_with_the_wish(pool: Pool) -> None:
    for _ in range(2):
        await pool.answer(waits())
    await pool.answer()
    assert await pool.answer() is None
    for _ in range(2):
        await pool.answer(waits())
    assert pool.metric == 1
    await pool.wish(potential=0)
    assert await pool.answer(waits()) is None
    assert pool.metric is None


async def test_a_new_leader_withdraws_nothing_and_begins_nothing_anew(pool: Pool) -> None:
    for _ in range(2):
        before = await pool.answer(waits(nodes=5))
    await pool.api.until(lambda: pool.nodesets.get("slurm", "gpu").status.growth is not None)
    pool.now += timedelta(hours=1)
    pool.lead()
    assert await pool.answer(waits(nodes=5)) == before
    pool.lead()
    assert await pool.answer() == before, "one answer alone takes nothing back"
    assert pool.writes == 1


async def test_a_job_that_no_node_can_help_is_told_with_an_event(pool: Pool) -> None:
    for _ in range(4):
        said = await pool.answer(waits(cpus=16))
    assert said == {
        "wantedNodes": 0, "countedNodes": 0, "requests": [], "since": "", "held": False, "seen": "",
        "reason": "job 7: a node of this NodeSet lacks cpu: needs 16, has 8",
    }  # fmt: skip
    (event,) = pool.api.events()
    assert (event["type"], event["reason"], event["regarding"]["name"]) == ("Warning", "CannotGrow", "gpu")
    assert event["note"] == (
        "job 7 waits, and more nodes of this NodeSet do not help it: a node of this NodeSet lacks cpu: needs 16, has 8"
    )


async def test_without_a_nodeset_that_may_grow_nothing_is_counted_or_written(pool: Pool) -> None:
    await pool.wish(potential=0)
    before = pool.api.asked.total()
    for _ in range(3):
        await pool.answer(waits())
    assert (pool.api.asked.total(), pool.metric) == (before, None)


async def test_what_jobs_ask_for_is_read_only_where_a_nodeset_may_grow(pool: Pool) -> None:
    assert pool.growth.is_on
    await pool.wish(potential=0)
    assert not pool.growth.is_on
    pool.nodesets = Informer(pool.kube, paths.nodesets("slurm"), NodeSet)
    assert pool.lead().is_on, "nobody knows yet: a new leader withdraws nothing"


async def test_before_all_jobs_are_read_nothing_changes(pool: Pool) -> None:
    for _ in range(2):
        await pool.answer(waits(nodes=5))
    await pool.growth.check(msgspec.structs.replace(READ, jobs=None))
    assert pool.said is not None
    assert pool.said["wantedNodes"] == 5


async def test_that_nothing_is_wanted_is_said_where_nodes_are_released_by_it(pool: Pool) -> None:
    assert await pool.answer() is None
    await pool.wish(potential=99, releaseAfterSeconds=600)
    nothing = {"wantedNodes": 0, "countedNodes": 0, "requests": [], "reason": "", "since": "", "held": False}
    said = {**nothing, "seen": "2026-11-28T12:00:00Z"}
    for _ in range(20):
        assert await pool.answer() == said
        pool.now += timedelta(seconds=5)
    assert pool.writes == 1
    pool.now += timedelta(seconds=20)
    assert await pool.answer() == {**said, "seen": "2026-11-28T12:02:00Z"}
    pool.now += timedelta(hours=1)
    await pool.growth.check(msgspec.structs.replace(READ, jobs=None))
    task = asyncio.create_task(pool.growth.run())
    await pool.add_pod("gpu-1")
    await pool.api.until(lambda: not pool.growth._came.is_set())
    task.cancel()
    await asyncio.wait({task})
    assert pool.said == {**said, "seen": "2026-11-28T12:02:00Z"}, "a node that comes tells nothing of jobs"
    assert pool.writes == 2
    await pool.wish(potential=98, releaseAfterSeconds=None)
    assert await pool.answer() is None


async def test_nodes_that_were_bought_for_a_job_stay_until_it_has_the_others(pool: Pool) -> None:
    await pool.wish(potential=3, releaseAfterSeconds=600)
    for name in ("gpu-1", "gpu-2"):
        await pool.add_pod(name)
    for _ in range(2):
        said = await pool.answer(waits(nodes=3), nodes=("gpu-1", "gpu-2"), alloc_cpus=8)
    assert said is not None
    assert (said["wantedNodes"], said["held"]) == (1, False)
    await pool.add_pod("gpu-3")
    said = await pool.answer(waits(nodes=3), nodes=("gpu-1", "gpu-2"), alloc_cpus=8)
    assert said is not None
    assert (said["wantedNodes"], said["held"]) == (0, True), "the one that came waits for those that are busy"
    said = await pool.answer()
    assert said is not None
    assert (said["wantedNodes"], said["held"]) == (0, False)


async def test_what_could_not_be_written_is_written_with_the_next_answer(pool: Pool) -> None:
    await pool.answer(waits())
    pool.api.refuse_patch = {"gpu/status": 500}
    await pool.answer(waits())
    pool.api.refuse_patch = {}
    said = await pool.answer(waits())
    assert said is not None
    assert said["wantedNodes"] == 1


async def test_the_syncer_asks_slurm_nothing_more_for_it(world: World) -> None:
    def number(value: int) -> dict[str, Any]:
        return {"set": True, "number": value}

    world.settings = msgspec.structs.replace(world.settings, metrics=FigureSettings(seconds=0.05))
    shape = {"cpus": 8, "memory": "8Gi"}
    spec = {"cluster": "c1", "template": {}, "growth": {"potential": 9, "shape": shape}}
    world.api.put("nodesets", {"metadata": {"name": "gpu", "namespace": "slurm"}, "spec": spec})
    world.add_pod()
    world.slurm.put(NAME, "ALLOCATED", cpus=8, alloc_cpus=8, real_memory=8192)
    world.slurm.configured = {"low": NAME}
    asked = {"state_reason": "Resources", "priority": number(1), "node_count": number(3), "cpus": number(24)}
    job = world.slurm.add_job("PENDING", comment="", user="ann", **asked)
    wanted = [{"job": str(job), "nodes": 3}]
    async with world.syncing():
        await world.until(lambda: (growth_of(world) or {}).get("requests") == wanted)
    asked_for = {re.sub(r"job/\d+|node/.+", "one", request) for request in world.slurm.requests}
    of_figures = {
        f"GET {each}" for each in ("jobs/state/", "partitions/", "diag/", "licenses/", "reservations/", "shares")
    }
    assert asked_for - of_figures == {"GET ping/", "GET nodes/", "GET one", "POST one"}, "POST: the node's comment"
    turns = [sum(request.endswith(each) for request in world.slurm.requests) for each in ("jobs/state/", "partitions/")]
    assert max(turns) - min(turns) <= 1, "jobs are listed once in a turn of the figures"


def growth_of(world: World) -> dict[str, Any] | None:
    found = world.api.find("nodesets", "gpu") or {}
    return found.get("status", {}).get("growth")
