"""What jobs that wait ask of nodes, as real daemons tell it, and which nodes they lack."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from devcluster.waiting import wait_until
from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.growth.excluded import Excluded
from sunkpy.core.growth.lacks import Lack, find_lacks
from sunkpy.core.growth.survey import Members, devices_in_use, find_pools
from sunkpy.core.growth.waiting import WaitingJob
from sunkpy.slurm import NodesSnapshot, Slurm
from sunkpy.syncer.job_reader import JobReader
from tests.integration.slurm.asking import connect, happens
from tests.integration.slurm.daemons import RealSlurm
from tests.integration.slurm.gangs import NODES, five_nodes

pytestmark = pytest.mark.integration

SUITE: Final = os.environ.get("SLURM_SUITE", "trixie")
RECORDS: Final = "gpu_potential_1a2b3c_[1-10]"
OFFER: Final = "CPUs=2 RealMemory=4000 Gres=gpu:h100:2 Feature=gpu"
MIB: Final = 2**20
POTENTIAL: Final = len(NODES) + 10


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """Five nodes of two cpus and two GPUs, and records of ten more."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    conf = "GresTypes=gpu\nNodeSet=gpu Feature=gpu\nLicenses=matlab:1,b:2\n"
    machines = five_nodes(gpus=2, features=("gpu",) * len(NODES), conf=conf)
    slurm = RealSlurm(tmp_path_factory.mktemp("waiting"), SUITE, people={"ann": 2001}, machines=machines)
    try:
        idle = ("sinfo", "--noheader", "--states=idle", "--Node", "--format=%N")
        found = wait_until(lambda: set(slurm.run_as("slurm", *idle)[1].split()) == set(NODES), timeout_s=60)
        assert found, slurm.logs()
        code, output = slurm.run_as(
            "slurm", "scontrol", "create", f"nodename={RECORDS}", *OFFER.split(), "state=FUTURE"
        )
        assert code == 0, output
        yield slurm
    finally:
        slurm.stop()


@pytest.fixture
async def client(real: RealSlurm) -> AsyncIterator[Slurm]:
    client = connect(real, "slurm")
    yield client
    real.run_as("slurm", "scancel", "--user=ann")

    async def is_empty() -> bool:
        jobs = await rows(client)
        return not any({"PENDING", "RUNNING", "COMPLETING"} & job.state for job in jobs)

    await happens(real, is_empty)
    await client.close()


async def rows(client: Slurm) -> list[JobRow]:
    found = await JobReader(client, scheduler_user="k8s", most=1000).refresh()
    assert found is not None
    return found


def submit(real: RealSlurm, *words: str) -> int:
    asked = ("sbatch", "--parsable", "-D", "/", "-o", "/dev/null", *words, "--wrap", "sleep 600")
    code, output = real.run_as("ann", *asked)
    assert code == 0, output
    return int(output)


async def fill(real: RealSlurm, client: Slurm, nodes: int = len(NODES)) -> None:
    """Jobs have so many nodes."""
    job = submit(real, f"-N{nodes}", "--exclusive", "--mem=100")

    async def runs() -> bool:
        return any(row.id == job and "RUNNING" in row.state for row in await rows(client))

    await happens(real, runs)


async def waits(real: RealSlurm, client: Slurm, job: int, *, reason: str = "") -> WaitingJob:
    """Once Slurm has said why."""
    found: list[WaitingJob] = []

    async def has_a_reason() -> bool:
        found[:] = [row.waits for row in await rows(client) if row.id == job and row.waits is not None]
        return bool(found) and (found[0].reason == reason if reason else found[0].reason not in ("", "None"))

    await happens(real, has_a_reason, timeout_s=90)
    return found[0]


async def lack(client: Slurm) -> Lack:
    """What the NodeSet lacks, as the syncer finds it."""
    seen, jobs, partitions = await client.nodes(), await rows(client), await client.partition_rows()
    assert isinstance(seen, NodesSnapshot)
    members = Members(name="gpu", potential=POTENTIAL, features=frozenset({"gpu"}), nodes=frozenset(NODES))
    pools = find_pools([members], seen.nodes, partitions, devices_in_use(jobs))
    tiers = {each.name: each.tier for each in partitions}
    return find_lacks([job.waits for job in jobs if job.waits is not None], pools, tiers)["gpu"]


SHAPES: Final = {
    "one cpu": (("-n1", "--mem=100"), {"nodes": 1, "total": {"cpu": 1000, "memory": 100 * MIB}, "whole_nodes": False}),
    "nodes": (("-N3", "--mem=100"), {"nodes": 3, "total": {"cpu": 3000, "memory": 300 * MIB}}),
    "a range of nodes": (("-N2-4", "--mem=100"), {"nodes": 2, "max_nodes": 4}),
    "whole nodes": (("-N2", "--exclusive", "--mem=100"), {"nodes": 2, "whole_nodes": True}),
    "tasks": (("-n6", "-c2", "--mem=100"), {"tasks": 6, "per_task": {"cpu": 2000}}),
    "tasks on each node": (("-n4", "--ntasks-per-node=2", "--mem=100"), {"nodes": 2, "tasks": 4}),
    "memory of each cpu": (("-n4", "--mem-per-cpu=50"), {"total": {"cpu": 4000, "memory": 200 * MIB}}),
    "devices of each node": (("-N2", "--gres=gpu:h100:2", "--mem=100"), {"per_node": {"gpu": 2, "gpu:h100": 2}}),
    "devices of any type": (("-N1", "--gres=gpu:1", "--mem=100"), {"per_node": {"gpu": 1}}),
    "devices of each task": (("-n4", "--gpus-per-task=1", "--mem=100"), {"per_task": {"gpu": 1}}),
    "devices of all together": (("-N2", "--gpus=h100:4", "--mem=100"), {"total": {"gpu": 4, "gpu:h100": 4}}),
    "a feature": (("-N1", "--constraint=gpu", "--mem=100"), {"constraint": "gpu"}),
    "other nodes": (("-N1", "--exclude=n[1-2]", "--mem=100"), {"excluded": Excluded("n[1-2]")}),
    "licences": (("-N1", "-L", "b:2,matlab", "--mem=100"), {"licenses": ("b", "matlab")}),
    "that node": (("-N1", "--nodelist=n1", "--mem=100"), {"names_nodes": True, "waits_for_nodes": False}),
    "partitions": (("-N1", "-p", "low,high", "--mem=100"), {"partitions": ("high", "low")}),
}  # fmt: skip


async def test_what_a_job_asks_for_is_read(real: RealSlurm, client: Slurm) -> None:
    await fill(real, client)
    jobs = {name: submit(real, *words) for name, (words, _) in SHAPES.items()}
    array = submit(real, "--array=1-9%4", "-n1", "--mem=100")
    waiting = {row.id: row.waits for row in await rows(client) if row.waits is not None}
    found = {
        name: {field: _plain(waiting[jobs[name]], field) for field in wanted} for name, (_, wanted) in SHAPES.items()
    }
    per_task = found["tasks"]["per_task"], found["devices of each task"]["per_task"]
    assert per_task[0] == {"cpu": 2000}
    assert per_task[1]["gpu"] == 1
    found["devices of each task"]["per_task"] = {"gpu": 1}
    found["devices of all together"]["total"] = {
        gres: count for gres, count in found["devices of all together"]["total"].items() if gres.startswith("gpu")
    }
    found["devices of each node"]["per_node"].pop("cpu", None)
    found["devices of any type"]["per_node"].pop("cpu", None)
    assert found == {name: wanted for name, (_, wanted) in SHAPES.items()}
    assert (waiting[array].copies, waiting[array].label) == (4, f"{array}_[1-9%4]")


def _plain(job: WaitingJob, field: str) -> object:
    value = getattr(job, field)
    return dict(value) if isinstance(value, dict) else value


async def test_only_what_nodes_can_help_lacks_them(real: RealSlurm, client: Slurm) -> None:
    await fill(real, client)
    first = submit(real, "-N2", "--exclusive", "--mem=100")
    others = {
        "JobHeldUser": submit(real, "--hold", "-N1", "--mem=100"),
        "Dependency": submit(real, f"--dependency=afterok:{first}", "-N1", "--mem=100"),
        "BeginTime": submit(real, "--begin=now+1hour", "-N1", "--mem=100"),
    }
    for reason, job in others.items():
        assert not (await waits(real, client, job, reason=reason)).waits_for_nodes
    assert (await waits(real, client, first)).waits_for_nodes
    found = await lack(client)
    assert {each.job: each.nodes for each in found.requests} == {str(first): 2}


async def test_a_job_for_more_nodes_than_there_are_lacks_the_others(real: RealSlurm, client: Slurm) -> None:
    job = submit(real, "-N12", "--exclusive", "--mem=100")
    assert (await waits(real, client, job)).waits_for_nodes
    found = await lack(client)
    assert {each.job: each.nodes for each in found.requests} == {str(job): 12 - len(NODES)}


async def test_gpus_that_jobs_have_are_not_free(real: RealSlurm, client: Slurm) -> None:
    running = [submit(real, "-N1", "--gres=gpu:2", "-n1", "--mem=100") for _ in NODES]

    async def all_run() -> bool:
        return sum("RUNNING" in row.state for row in await rows(client) if row.id in running) == len(NODES)

    await happens(real, all_run)
    job = submit(real, "-N1", "--gres=gpu:1", "-n1", "--mem=100")
    beside = submit(real, "-N1", "--gres=gpu:1", "-n1", "--mem=100")
    await waits(real, client, job)
    found = await lack(client)
    assert {each.job: each.nodes for each in found.requests} == {str(job): 1}, f"{beside} fits beside it"


async def test_both_parts_of_a_heterogeneous_job_lack_nodes_together(real: RealSlurm, client: Slurm) -> None:
    await fill(real, client)
    job = submit(real, "-N2", "--exclusive", "--mem=100", ":", "-N3", "--exclusive", "--mem=100")
    await waits(real, client, job)
    found = await lack(client)
    assert {each.job: each.nodes for each in found.requests} == {f"{job}+": 5}
