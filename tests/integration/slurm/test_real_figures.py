"""Our figures of a real Slurm: those of slurmctld itself from 25.11 on, what its commands say before."""

from __future__ import annotations

import asyncio
import os
import re
import urllib.request
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import datetime

import pytest

from devcluster.waiting import wait_until
from sunkpy.core.figures.devices import device_family, gpus_alloc
from sunkpy.core.figures.family import MetricFamily
from sunkpy.core.figures.jobs import JobRow, job_families
from sunkpy.core.figures.nodes import node_families, partition_families, state_families
from sunkpy.core.figures.shares import share_families
from sunkpy.core.figures.statistics import statistics_families
from sunkpy.core.figures.waits import WaitTimes
from sunkpy.slurm import NodesSnapshot, Slurm, errors
from sunkpy.syncer.job_reader import JobReader
from tests.integration.slurm.asking import connect, happens
from tests.integration.slurm.daemons import RealAccounting, RealSlurm
from tests.integration.slurm.gangs import NODES, five_nodes
from tests.roots import RELEASE, SUITE

pytestmark = pytest.mark.integration

HAS_OWN = RELEASE >= "25.11"
PAGES = ("jobs", "nodes", "partitions", "jobs-users-accts", "scheduler")
HELD = ("reason", "JobHeldUser")
Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]

OURS_NOT = {
    "slurm_node_memory_free_bytes": "changes with each breath of a node",
    "slurm_partition_nodes_mem_free": "the same",
    "slurm_nodes_powering_down": "slurmctld gives it as powering_up",
    "slurm_partition_nodes_powering_down": "as above",
}
MOVES = re.compile(
    r"slurm_(sched_|schedule_|bf_|sdiag_|server_thread|agent_|last_|slurmdbd_|node_memory_free|partition_nodes_mem_free)"
)
"""What changes between two questions, by the questions themselves."""
DIFFERS = {
    "slurm_partition_jobs_wait_part_node_limit": "slurmctld compares bits of the reason's number",
    "slurm_nodes_powering_up": "slurmctld gives the number of those that power down",
}


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """Two accounts with a person each, five nodes with two GPUs each."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    folder = tmp_path_factory.mktemp("figures")
    accounting = RealAccounting(folder, SUITE)
    conf = "Licenses=matlab:5\n" + ("MetricsType=metrics/openmetrics\n" if HAS_OWN else "")
    machines = five_nodes(gpus=2, conf=conf)
    slurm = RealSlurm(folder, SUITE, accounting, people={"ann": 2001, "bob": 2002}, machines=machines)
    try:
        assert wait_until(lambda: "it" in accounting.sacctmgr("show", "cluster"), timeout_s=60), slurm.logs()
        for person, account in (("ann", "chem"), ("bob", "bio")):
            accounting.sacctmgr("add", "account", account)
            accounting.sacctmgr("add", "user", person, f"account={account}")
        yield slurm
    finally:
        accounting.stop()
        slurm.stop()


@pytest.fixture
async def client(counted: RealSlurm) -> AsyncIterator[Slurm]:
    client = connect(counted, "slurm")

    async def is_idle() -> bool:
        try:
            seen = await client.nodes()
        except errors.SlurmError:
            return False
        nodes = seen.nodes if isinstance(seen, NodesSnapshot) else {}
        return {name for name, node in nodes.items() if node.is_registered} == set(NODES)

    await happens(counted, is_idle)
    yield client
    await client.close()


def submit(slurm: RealSlurm, user: str, *args: str, script: str = "sleep 600") -> None:
    code, output = slurm.run_as(user, "sbatch", "-D", "/", "-o", "/dev/null", "--wrap", script, *args)
    assert code == 0, output


async def all_jobs(client: Slurm) -> list[JobRow]:
    jobs = await JobReader(client, scheduler_user="k8s", most=1000).refresh()
    assert jobs is not None
    return jobs


async def families(client: Slurm) -> list[MetricFamily]:
    """All that the syncer shows."""
    seen = await client.nodes()
    assert isinstance(seen, NodesSnapshot)
    jobs, partitions = await all_jobs(client), await client.partition_rows()
    return [
        *job_families(jobs, {each.name: each.tier for each in partitions}),
        *state_families(seen.nodes.values()),
        *node_families(seen.nodes, gpus_alloc(jobs)),
        *partition_families(partitions, seen.nodes),
        *statistics_families(await client.statistics()),
        device_family(jobs, seen.nodes),
    ]


def as_figures(families: Iterable[MetricFamily]) -> Figures:
    """The figures by name and labels."""
    found: Figures = {}
    for family in families:
        for labels, value in family.samples:
            pairs = frozenset(pair for pair in zip(family.labels, labels, strict=True) if pair[1])
            assert (family.name, pairs) not in found, "a series twice"
            found[family.name, pairs] = value
    return found


def own_figures(slurm: RealSlurm) -> Figures:
    """What slurmctld says."""
    found: Figures = {}
    port = slurm.slurmctld_port
    for page in PAGES:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics/{page}", timeout=10) as answer:
            text = answer.read().decode()
        for name, labels, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.MULTILINE):
            found[name, frozenset(re.findall(r'(\w+)="([^"]*)"', labels))] = float(value)
    return found


async def settle(slurm: RealSlurm, client: Slurm) -> None:
    """Jobs of several states: three on GPUs, one of them of an array; one on whole nodes, held ones, a failed one."""
    submit(slurm, "ann", "--gres=gpu:1", "-n1", "--mem=100", "-L", "matlab:2")
    submit(slurm, "bob", "-N2-2", "-n2", "--mem=50")
    submit(slurm, "ann", "-N2-2", "--exclusive", "--gres=gpu:2", "-p", "high")
    submit(slurm, "ann", "--hold", "-N4", "-n4")
    submit(slurm, "ann", "--hold", "--array=0-9:3")
    submit(slurm, "ann", "--array=0-3%1", "-n1", "--mem=10", "--gres=gpu:1")
    submit(slurm, "bob", "-N5-5", "--exclusive")
    submit(slurm, "bob", "--hold", "-p", "low,high", "-N2-4")
    submit(slurm, "bob", "--mem=10", script="exit 3")

    async def is_there() -> bool:
        states = [job.state for job in await all_jobs(client)]
        return sum("RUNNING" in state for state in states) == 4 and any("FAILED" in state for state in states)

    await happens(slurm, is_there)
    await client.drain_node("n5", "broken fan")


async def test_figures_are_those_of_slurm(counted: RealSlurm, client: Slurm) -> None:
    await settle(counted, client)
    for _ in range(10):
        before, ours, after = own_or_commands(counted), as_figures(await families(client)), own_or_commands(counted)
        steady = {key: value for key, value in before.items() if after.get(key) == value}
        wrong = {
            key: (value, ours.get(key))
            for key, value in steady.items()
            if ours.get(key) != value and key[0] not in OURS_NOT | DIFFERS and not MOVES.match(key[0])
        }
        if not wrong:
            break
        await asyncio.sleep(1)
    assert wrong == {}, "(Slurm's, ours)"
    assert {name for name, _ in before} - {name for name, _ in ours} <= OURS_NOT.keys()
    assert before["slurm_jobs_running", frozenset()] == 4
    assert ours["slurm_jobs_gpus_alloc", frozenset()] == 6, "those allocated: a whole node has both"
    assert ours["slurm_partition_jobs_max_job_nodes", frozenset({("partition", "low")})] == 5
    held = [value for (name, labels), value in ours.items() if name == "sunkpy_jobs_pending" and HELD in labels]
    assert sum(held) == ours["slurm_jobs_hold", frozenset()] == 6


async def test_each_gpu_of_a_running_job_is_a_series(counted: RealSlurm, client: Slurm) -> None:
    found = as_figures(await families(client))
    gpus = [dict(labels) for name, labels in found if name == "sunkpy_job_gpu"]
    assert len({(gpu["node"], gpu["index"]) for gpu in gpus}) == len(gpus) == 6
    assert {(gpu["user"], gpu["account"]) for gpu in gpus} == {("ann", "chem")}


async def test_a_job_waited_as_long_as_slurm_says_and_its_start_counts_once(counted: RealSlurm, client: Slurm) -> None:
    # The nodes may have registered in any order, and then it is the only one with room.
    counted.run_as("slurm", "scontrol", "update", "nodename=n5", "state=resume")
    waits = WaitTimes()
    waits.begin((await client.statistics()).figures["req_time"])
    asked = ("--parsable", "-D", "/", "-o", "/dev/null", "-t", "1", "-b", "now+3", "--mem=10", "--wrap", "true")
    code, output = counted.run_as("bob", "sbatch", *asked)
    assert code == 0, output
    job = int(output)

    async def has_ended() -> bool:
        return any(row.id == job and "COMPLETED" in row.state for row in await all_jobs(client))

    # Slurm looks for what may begin now each 30 s, or each minute where nothing else happens.
    await happens(counted, has_ended, timeout_s=120)
    for _ in range(2):
        waits.add(await all_jobs(client), is_whole=True)
    (row,) = (row for row in await all_jobs(client) if row.id == job)
    found = {sample.labels: sample.value for sample in waits.family.samples}
    assert {key[:3]: value for key, value in found.items() if key[-1] == "_count"} == {("bio", "low", "Slurm"): 1}
    _, shown = counted.run_as("bob", "squeue", "-h", "-t", "all", "-j", output.strip(), "-O", "StartTime,EligibleTime")
    started, eligible = map(datetime.fromisoformat, shown.split())
    assert datetime.fromtimestamp(row.started_s) == started
    assert found["bio", "low", "Slurm", "_sum"] == (started - eligible).seconds, "not what it was to wait for"


async def test_licenses_and_reservations_are_those_of_slurm(counted: RealSlurm, client: Slurm) -> None:
    assert await client.reservations() == []
    wanted = (
        "reservationname=class",
        "nodes=n4,n5",
        "users=ann",
        "starttime=now+1hour",
        "duration=60",
        "flags=ignore_jobs",
    )
    code, output = counted.run_as("slurm", "scontrol", "create", "reservation", *wanted, "flags=ignore_jobs")
    assert code == 0, output
    (matlab,), (of_class,) = await client.licenses(), await client.reservations()
    assert (matlab.name, matlab.total, matlab.used, matlab.free) == ("matlab", 5, 2, 3)
    assert (of_class.name, of_class.nodes, of_class.ends_s - of_class.starts_s) == ("class", 2, 3600)


async def test_each_person_has_a_share(client: Slurm) -> None:
    of_factor, *_ = share_families(await client.shares())
    assert {("chem", "ann"), ("bio", "bob")} <= {sample.labels for sample in of_factor.samples}
    assert all(0 <= sample.value <= 1 for sample in of_factor.samples)


def own_or_commands(slurm: RealSlurm) -> Figures:
    return own_figures(slurm) if HAS_OWN else commands(slurm)


def commands(slurm: RealSlurm) -> Figures:
    """The same names, as squeue and sinfo give them."""

    def lines(*command: str) -> list[list[str]]:
        code, output = slurm.run_as("slurm", *command)
        assert code == 0, output
        return [line.split("|") for line in output.splitlines()]

    jobs = lines("squeue", "-h", "-a", "-r", "-t", "all", "-o", "%T|%u|%a|%r")
    nodes = lines("sinfo", "-h", "-N", "-p", "low", "-o", "%N|%T|%C|%m")
    found: Figures = {("slurm_jobs", frozenset()): len(jobs), ("slurm_nodes", frozenset()): len(nodes)}
    for state in ("running", "pending", "failed"):
        found[f"slurm_jobs_{state}", frozenset()] = sum(job[0] == state.upper() for job in jobs)
        for at, kind, label in ((1, "user", "username"), (2, "account", "account")):
            for key in {job[at] for job in jobs}:
                count = sum(job[0] == state.upper() and job[at] == key for job in jobs)
                found[f"slurm_{kind}_jobs_{state}", frozenset({(label, key)})] = count
    found["slurm_jobs_hold", frozenset()] = sum(job[3] == "JobHeldUser" for job in jobs)
    for name, words in NODE_WORDS.items():
        found[f"slurm_nodes_{name}", frozenset()] = sum(node[1].rstrip("*-") in words for node in nodes)
    for name, _, cpus, memory in nodes:
        allocated, _, _, total = map(int, cpus.split("/"))
        at = frozenset({("node", name)})
        found |= {("slurm_node_cpus_alloc", at): allocated, ("slurm_node_cpus", at): total}
        found["slurm_node_memory_bytes", at] = int(memory)
    return found


NODE_WORDS: Mapping[str, set[str]] = {
    "drained": {"drained"},
    "draining": {"draining"},
    "down": {"down"},
}
