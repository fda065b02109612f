"""Gangs of several pods on a node, and of nodes at several switches, on a real Slurm: where they lie, what they hold.

Five nodes of four cpus and four GPUs each, beside what sbatch has of them. Slurm has them in the order in which they
registered, and every other one of these is at the same switch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from sunkpy.core import names
from sunkpy.core.gang.actions import Bind, Report
from sunkpy.core.gang.job.job import along_switches
from sunkpy.core.model import matching
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.core.placement.eligibility import with_features
from sunkpy.core.placement.needs import MINIMUM_MEMORY_MIB
from sunkpy.slurm import NodesSnapshot, Slurm, errors
from tests.integration.slurm.asking import happens
from tests.integration.slurm.daemons import RealSlurm
from tests.integration.slurm.gangs import NODES, Ring, five_nodes
from tests.polling import until

pytestmark = pytest.mark.integration

CPUS: Final = 4
GPUS: Final = 4
MEMORY_MIB: Final = 4000
GPU: Final = "nvidia.com/gpu"
ROOM: Final = frozenset({"gpu": GPUS, "cpu": CPUS * 1000, "memory": MEMORY_MIB * 2**20}.items())
FEATURES: Final = ("small,ib", "small", "large,ib", "large", "huge,ib")
TREE: Final = "TopologyPlugin=topology/tree\n"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """Larger nodes than other tests have, at two switches."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    machines = five_nodes(cpus=CPUS, gpus=GPUS, features=FEATURES, conf="GresTypes=gpu\n")
    slurm = RealSlurm(tmp_path_factory.mktemp("shapes"), os.environ.get("SLURM_SUITE", "trixie"), machines=machines)
    yield slurm
    slurm.stop()


@pytest.fixture
async def order(pool: RealSlurm, keeper: Slurm) -> tuple[str, ...]:
    """The nodes as Slurm has them. The first, third and fifth are at switch s1, the others at s2."""
    found = await in_order(keeper)
    if (pool.root / "etc/slurm/topology.conf").exists():
        return found
    leaves = f"SwitchName=s1 Nodes={','.join(found[::2])}\nSwitchName=s2 Nodes={','.join(found[1::2])}\n"
    (pool.root / "etc/slurm/topology.conf").write_text(f"{leaves}SwitchName=top Switches=s1,s2\n")
    conf = (pool.root / "etc/slurm/slurm.conf").read_text()
    (pool.root / "etc/slurm/slurm.conf").write_text(conf + TREE)
    starts = pool.starts("slurmctld")
    pool.send("TERM", "slurmctld")

    async def is_back() -> bool:
        try:
            return pool.starts("slurmctld") > starts and await in_order(keeper) == found
        except errors.SlurmError:
            return False

    await happens(pool, is_back)
    return found


async def in_order(slurm: Slurm) -> tuple[str, ...]:
    """The nodes that are registered."""
    seen = await slurm.nodes()
    nodes = seen.nodes.values() if isinstance(seen, NodesSnapshot) else ()
    return tuple(node.name for node in nodes if node.is_registered)


async def sbatch(slurm: Slurm, *nodes: str, cpus: int = 1, gpus: int = 0) -> SlurmJob:
    """Somebody's job on a node, or on any, once it runs."""
    tres = f"gres/gpu:{gpus}" if gpus else ""
    job = JobSpec(
        name="other", script="#!/bin/bash\nsleep 100\n", comment="", cpus_per_task=cpus, required_nodes=nodes,
        memory_mib_per_node=10, gres_per_node=tres,
    )  # fmt: skip
    return await running(slurm, (await slurm.submit_job(job)).job_id)


async def running(slurm: Slurm, job_id: JobId) -> SlurmJob:
    """The job, once it runs."""

    async def runs() -> bool:
        return (await slurm.job(job_id)).is_running

    await until(runs, timeout_s=60, what=f"job {job_id} to run")
    return await slurm.job(job_id)


async def started(slurm: Slurm, name: str, asks: Sequence[dict[str, str]], **how: str) -> Ring:
    """A gang whose pods are all bound, on any of the nodes."""
    ring = Ring(slurm, name, nodes=NODES, asks=asks, room=ROOM, **how)
    await ring.until(Bind)
    assert len(ring.placed) == len(asks)
    return ring


def given_out(ring: Ring) -> list[tuple[str, str]]:
    """Node and index of each GPU that is noted on a pod."""
    notes = ((ring.placed[pod.uid], pod.annotations.get(names.ANNOTATION_GPU_INDICES, "")) for pod in ring.pods)
    return [(node, index) for node, note in notes for index in note.split(",") if index]


def had_by(job: SlurmJob) -> list[tuple[str, str]]:
    """Node and index of each GPU of a job."""
    return [(node, str(index)) for node, of_node in job.devices.items() for index in of_node.get("gpu", ())]


# ----------------------------------------------------------------------------------------------- devices


@pytest.mark.parametrize("restarts", ["Never", "Always"])
async def test_no_gpu_of_a_node_is_given_out_twice_whoever_came_first(
    keeper: Slurm, own: Slurm, order: tuple[str, ...], restarts: str
) -> None:
    before = [await sbatch(keeper, order[0], gpus=1), await sbatch(keeper, order[2], gpus=2)]
    small = await started(own, f"small-{restarts.lower()}", [{"cpu": "1", GPU: "1"}] * 5, restarts=restarts)
    uneven = [{"cpu": "1", GPU: "1"}] + [{"cpu": "1", GPU: "2"}] * 2
    large = await started(own, f"large-{restarts.lower()}", uneven, restarts=restarts)
    after = [await sbatch(keeper, gpus=1)]
    gone = [had_by(job) for job in (*before, *after)]
    listed = {job.id: had_by(job) for job in await keeper.jobs()}
    assert [listed[job.id] for job in (*before, *after)] == gone
    found = [*given_out(small), *given_out(large), *(each for several in gone for each in several)]
    assert len(found) == len(set(found)) == 5 + 5 + 4
    assert {index for _, index in found} <= set("0123")
    for ring in (small, large):
        assert set(given_out(ring)) <= set(had_by(await keeper.job(ring.job)))
        assert await ring.step() == []
    assert max(list(small.placed.values()).count(node) for node in order) > 1


# ----------------------------------------------------------------------------------------- what is held


EQUAL: Final[tuple[tuple[str, list[dict[str, str]], int], ...]] = (
    ("few", [{"cpu": "1", "memory": "300Mi", GPU: "1"}] * 6, 0),
    ("odd", [{"cpu": "1500m", "memory": "1001Mi"}] * 3, 1),
    ("bare", [{}] * 4, 0),
)
"""Name, what each pod asks, and how many MiB more there may be for each cpu, by which memory is asked."""


async def test_equal_pods_hold_what_they_ask_on_each_node_and_no_more(
    keeper: Slurm, own: Slurm, order: tuple[str, ...]
) -> None:
    await sbatch(keeper, order[0], cpus=3)
    for name, asks, extra_mib in EQUAL:
        ring = await started(own, name, asks)
        job = await keeper.job(ring.job)
        requests = matching.pod_requests(ring.pods[0].spec)
        cpus, memory_mib = -(-requests.get("cpu", 1) // 1000), requests.get("memory", 0) // 2**20
        for node, room in job.capacity.items():
            here = list(ring.placed.values()).count(node)
            assert room.cpus == here * cpus
            assert 0 <= room.memory_mib - here * max(memory_mib, MINIMUM_MEMORY_MIB) <= extra_mib * room.cpus
            assert (room.gres or {}).get("gpu", 0) == here * requests.get(GPU, 0)
        assert sorted(ring.placed.values()) == sorted(node for node, count in job.layout for _ in range(count))


async def test_a_launcher_and_its_workers_hold_no_less_than_they_ask(
    keeper: Slurm, own: Slurm, order: tuple[str, ...]
) -> None:
    asks = [{"cpu": "2", "memory": "100Mi"}, *[{"cpu": "1", "memory": "900Mi", GPU: "2"}] * 4]
    ring = await started(own, "launcher", asks)
    job = await keeper.job(ring.job)
    for node, room in job.capacity.items():
        total: matching.Amounts = {}
        for pod in ring.pods:
            if ring.placed[pod.uid] == node:
                total = matching.added(total, matching.pod_requests(pod.spec))
        has = {"cpu": room.cpus * 1000, "memory": room.memory_mib * 2**20, GPU: (room.gres or {}).get("gpu", 0)}
        assert not matching.shortfalls({name: total.get(name, 0) for name in has}, has)


async def test_a_gang_that_wants_its_nodes_alone_starts_where_its_memory_is_more_than_its_cpus(
    keeper: Slurm, own: Slurm, order: tuple[str, ...]
) -> None:
    """Two of these pods fill a node by memory, which for each cpu of the node would be more than the node has."""
    ring = await started(own, "alone", [{"cpu": "1", "memory": "1800Mi"}] * 5, exclusive="true")
    job = await keeper.job(ring.job)
    assert sorted(count for _, count in job.layout) == [1, 2, 2]
    assert {room.cpus for room in job.capacity.values()} == {CPUS}
    assert max(list(ring.placed.values()).count(node) for node in order) == 2
    other = Ring(own, "beside", nodes=[node for node, _ in job.layout], asks=[{"cpu": "1", "memory": "10Mi"}])
    await other.until(Report)


# -------------------------------------------------------------------------------------------- features


async def test_a_job_has_nodes_of_several_nodesets_and_of_no_other(keeper: Slurm, order: tuple[str, ...]) -> None:
    seen = await keeper.nodes()
    assert isinstance(seen, NodesSnapshot)
    assert [seen.nodes[name].features for name in NODES] == [frozenset(text.split(",")) for text in FEATURES]
    asked = JobSpec(
        name="features", script="#!/bin/bash\nsleep 100\n", comment="", minimum_nodes=2, maximum_nodes=2, tasks=2,
        cpus_per_task=CPUS, memory_mib_per_node=10, constraint=with_features("ib", ("huge", "large")),
    )  # fmt: skip
    job = await running(keeper, (await keeper.submit_job(asked)).job_id)
    assert {node for node, _ in job.layout} == {"n3", "n5"}
    assert job.constraint == "ib&(huge|large)"
    other = JobSpec(name="more", script="#!/bin/bash\nsleep 100\n", comment="", constraint="huge")
    waits = (await keeper.submit_job(other)).job_id
    await keeper.update_job(waits, JobSpec(constraint="huge|small"), ["constraint"])
    assert {node for node, _ in (await running(keeper, waits)).layout} <= {"n1", "n2"}


# -------------------------------------------------------------------------------------------- switches


async def test_ranks_follow_the_order_of_slurm_and_where_switches_are_told_those_too(
    keeper: Slurm, own: Slurm, order: tuple[str, ...]
) -> None:
    """Slurm's order is that of registration, for all that it knows of switches."""
    ring = await started(own, "wide", [{"cpu": "2"}] * 10)
    by_rank = [ring.placed[pod.uid] for pod in ring.pods]
    assert by_rank == [node for node in order for _ in range(2)]
    switches = {node: f"s{at % 2}" for at, node in enumerate(order)}
    (job,) = ring.snapshot().jobs
    told = along_switches(job, lambda node: (switches[node],))
    assert told.nodes == (*order[::2], *order[1::2])
    assert told.slurm.layout == tuple((node, 2) for node in told.nodes)


async def test_a_gang_that_asks_for_one_switch_has_its_nodes_there_or_waits(
    keeper: Slurm, own: Slurm, order: tuple[str, ...]
) -> None:
    in_the_way = await sbatch(keeper, order[1], cpus=CPUS)
    for node in (order[0], order[2]):
        await sbatch(keeper, node, cpus=CPUS)
    # Two nodes are left, one at each switch.
    ring = Ring(own, "near", nodes=NODES, asks=[{"cpu": str(CPUS)}] * 2, switches="1@10:00")
    await ring.until(Report)
    assert (await keeper.job(ring.job)).switches == 1
    await keeper.cancel_job(in_the_way.id)
    await ring.until(Bind)
    assert [ring.placed[pod.uid] for pod in ring.pods] == [order[1], order[3]]
