"""Nodes that there could be, on real daemons: Slurm takes jobs for them, and shows nobody their records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pytest

from devcluster.waiting import wait_until
from sunkpy.core.figures.nodes import partition_families
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.nodeset import potential
from sunkpy.core.nodeset.spec import Growth, NodeShape
from sunkpy.core.topology import files
from sunkpy.core.topology.places import TREE, Place, topology_str_of
from sunkpy.slurm import NodeChange, NodesSnapshot, errors
from tests.integration.slurm.asking import connect
from tests.integration.slurm.daemons import RealSlurm
from tests.integration.slurm.gangs import NODES, five_nodes
from tests.integration.slurm.kept_potential import KEEP_POTENTIAL, bring
from tests.roots import RELEASE, SUITE
from tests.unit.core.nodeset.build import make_nodeset

pytestmark = pytest.mark.integration

IS_NEW: Final = RELEASE != "24.11"
REASONS: Final = (
    "ReqNodeNotAvail, May be reserved for other job",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
)
"""The one of the backfill, the other of the main scheduler, whichever looked last."""
GPU: Final = "--gres=gpu:h100:1"


class Grows:
    """A Slurm of five nodes with a GPU each, and a NodeSet that may have more."""

    def __init__(self, slurm: RealSlurm) -> None:
        self.slurm = slurm
        self.offers: dict[str, str] = {}
        self.topology = ""

    def settle(self) -> None:
        idle = ("sinfo", "--noheader", "--states=idle", "--Node", "--format=%N")
        self.wait(lambda: len(set(self.run(*idle).split())) == len(NODES), "all nodes are idle")

    def place(self) -> None:
        """With 26.05, give each node its place in the tree, as the syncer does."""

        async def tell() -> None:
            client = connect(self.slurm, "slurm")
            try:
                await client.update_nodes(NODES, NodeChange(topology_str=self.topology))
            finally:
                await client.close()

        if self.topology:
            asyncio.run(tell())

    def run(self, *command: str) -> str:
        return self.slurm.run_as("slurm", *command)[1].strip()

    def submit(self, *words: str) -> str:
        """The number of the job, or why it is refused."""
        return self.run("sbatch", "--parsable", "--mem=10", "--output=/dev/null", *words, "--wrap=true")

    def shown(self, job: str, field: str) -> str:
        return self.run("squeue", "--noheader", f"--jobs={job}", f"--Format={field}:100")

    def records(self) -> dict[str, str]:
        """Name and GRES of each."""
        lines = self.run("sinfo", "--future", "--states=future", "--noheader", "--Node", "--format=%N %G").splitlines()
        return dict(line.split() for line in lines if "_potential_" in line)

    def grow(
        self, most: int, *, shape: NodeShape | None = None, features: tuple[str, ...] = (), name: str = "gpu"
    ) -> None:
        """As the syncer tells it, and the kubelet brings it."""
        made = make_nodeset(features=features, name=name)
        growth = Growth(potential=most, shape=shape)
        nodeset = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, growth=growth))
        has = {"gpu": potential.Has(nodes=tuple(self.nodes().values()))}
        records = potential.find_potential([nodeset], has, self.offers, topology=self.topology)
        bring(self.slurm, potential.write(records))
        self.offers |= {each.nodeset: each.offer for each in records}

    def nodes(self) -> dict[str, SlurmNode]:
        async def ask() -> dict[str, SlurmNode]:
            client = connect(self.slurm, "slurm")
            try:
                seen = await client.nodes()
            finally:
                await client.close()
            assert isinstance(seen, NodesSnapshot)
            return seen.nodes

        return asyncio.run(ask())

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        if not wait_until(holds, timeout_s=120):
            said = self.run("scontrol", "-o", "show", "nodes", "--future")
            raise AssertionError(f"{what}: not so:\n{said}\n{self.slurm.logs()}")


def begin(folder: Path, *, conf: str = "", more: Mapping[str, str] | None = None) -> RealSlurm:
    """Five nodes with a GPU each, and a slurmctld that has the chart's script beside it."""
    own = "GresTypes=gpu\n" + "".join(
        f"NodeSet={nodeset} Feature={nodeset}\nPartitionName={partition} Nodes={nodeset}\n"
        for nodeset, partition in (("gpu", "own"), ("spot", "empty"))
    )
    machines = five_nodes(gpus=1, features=("gpu",) * len(NODES), conf=own + conf)
    files_too = {**machines.files, **(more or {})}
    machines = msgspec.structs.replace(machines, slurmctld=KEEP_POTENTIAL, files=files_too)
    return RealSlurm(folder, SUITE, machines=machines)


@pytest.fixture(scope="module")
def grows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grows]:
    grows = Grows(begin(tmp_path_factory.mktemp("potential")))
    grows.settle()
    yield grows
    grows.slurm.stop()


def test_a_job_for_more_nodes_than_there_are_waits_for_those_that_there_could_be(grows: Grows):
    before = grows.submit("--nodes=8", GPU)
    if not IS_NEW:
        assert "Requested node configuration is not available" in before
    grows.grow(8)
    grows.wait(lambda: set(grows.records().values()) == {"gpu:h100:1"} and len(grows.records()) == 3, "three records")
    job = grows.submit("--nodes=8", GPU, "--partition=own", "--constraint=gpu")
    assert job.isdecimal(), job
    grows.wait(lambda: grows.shown(job, "Reason") not in ("", "None"), "Slurm has tried it")
    assert grows.shown(job, "State") == "PENDING"
    assert grows.shown(job, "Reason") in REASONS
    if not IS_NEW:
        assert "not available" in grows.submit("--nodes=9", GPU)
    assert grows.submit("--nodes=8", "--gres=gpu:a100:1").endswith("not available")
    grows.run("scancel", job)


def test_nobody_sees_a_record(grows: Grows):
    (name, *_) = grows.records()
    nodes = grows.nodes()
    assert set(nodes) == set(NODES)
    assert "potential" not in grows.run("sinfo", "--Node") + grows.run("scontrol", "show", "nodes")
    assert grows.run("sinfo", "--noheader", "--partition=own", "--format=%D") == str(len(NODES))

    async def ask() -> list[tuple[str, float]]:
        client = connect(grows.slurm, "slurm")
        try:
            with pytest.raises(errors.NotFound):
                await client.node(name)
            rows = await client.partition_rows()
        finally:
            await client.close()
        assert all(name in row.nodes for row in rows if row.name != "empty")
        figures = partition_families(rows, nodes)
        return [(each.name, sample.value) for each in figures for sample in each.samples if "own" in sample.labels]

    figures = dict(asyncio.run(ask()))
    assert (figures["slurm_partition_nodes"], figures["slurm_partition_cpus"]) == (5, 10)
    assert (figures["slurm_partition_nodes_future"], figures["slurm_partition_nodes_idle"]) == (0, 5)


def test_types_that_a_restart_takes_come_again_and_a_job_for_them_waits_on(grows: Grows):
    """No node is there that has such a GPU. If Slurm looks in between it holds the job, until there are others."""
    grows.grow(8, shape=NodeShape(cpus=2, memory="2000Mi", gres="gpu:a100:2"))
    grows.wait(lambda: list(grows.records().values()) == ["gpu:a100:2"] * 3, "three records")
    job = grows.submit("--nodes=2", "--gres=gpu:a100:2")
    assert job.isdecimal(), job
    hold = grows.slurm.root / "potential/hold"
    hold.touch()
    starts = grows.slurm.starts("slurmctld")
    grows.slurm.send("TERM", "slurmctld")
    grows.wait(
        lambda: grows.slurm.starts("slurmctld") > starts and set(grows.records().values()) == {"gpu:2"}, "it is up"
    )
    grows.run("scontrol", "update", f"jobid={job}", "nice=1")  # has Slurm look, if it does by now
    hold.unlink()
    grows.wait(lambda: list(grows.records().values()) == ["gpu:a100:2"] * 3, "records have types")
    grows.wait(lambda: grows.shown(job, "PriorityLong") not in ("", "0"), "it is not held any more")
    grows.run("scancel", "--user=slurm")
    grows.grow(8)
    grows.wait(lambda: list(grows.records().values()) == ["gpu:h100:1"] * 3, "three records")


def test_a_job_waits_on_while_there_are_too_few(grows: Grows):
    job = grows.submit("--nodes=8", GPU)
    grows.grow(6)
    grows.wait(lambda: len(grows.records()) == 1, "one record")
    grows.run("scontrol", "update", f"jobid={job}", "nice=1")  # has Slurm look
    grows.wait(lambda: grows.shown(job, "Reason") == "PartitionNodeLimit", "Slurm has tried it")
    assert grows.shown(job, "PriorityLong") != "0"
    grows.grow(8)
    grows.wait(lambda: len(grows.records()) == 3, "three records")
    grows.run("scancel", "--user=slurm")


def test_a_partition_without_any_node_takes_jobs_for_nodes_that_there_could_be(grows: Grows):
    assert not grows.submit("--partition=empty").isdecimal() or IS_NEW
    grows.grow(3, shape=NodeShape(cpus=2, memory="2000Mi", gres="gpu:a100:2"), name="spot")
    grows.wait(lambda: list(grows.records().values()) == ["gpu:a100:2"] * 3, "three records")
    job = grows.submit("--partition=empty", "--nodes=3", "--gres=gpu:a100:2")
    assert job.isdecimal(), job
    grows.wait(lambda: grows.shown(job, "Reason") not in ("", "None"), "Slurm has tried it")
    assert grows.shown(job, "PriorityLong") != "0", grows.shown(job, "Reason")
    grows.run("scancel", "--user=slurm")
    grows.grow(8)
    grows.wait(lambda: list(grows.records().values()) == ["gpu:h100:1"] * 3, "three records")


def test_another_offer_makes_other_records_and_none_are_left_without_a_wish(grows: Grows):
    old = set(grows.records())
    grows.grow(8, features=("ib", "k8s/zone=eu-1a"))
    grows.wait(lambda: len(grows.records()) == 3 and not old & set(grows.records()), "other records")
    assert grows.submit("--nodes=3", "--constraint=ib&k8s/zone=eu-1a").isdecimal()
    grows.grow(0)
    grows.wait(lambda: not grows.records(), "none")
    grows.run("scancel", "--user=slurm")


def test_below_a_tree_of_sunkpys_jobs_for_such_nodes_wait_too(tmp_path: Path):
    """24.11 looks at its tree only where a job asks for switches; 26.05 counts no node that stands nowhere."""
    conf = "TopologyPlugin=topology/tree\n" + ("" if IS_NEW else "TopologyParam=TopoOptional\n")
    tree = (
        {files.YAML: files.write_yaml([TREE], [], [])}
        if IS_NEW
        else {files.CONF: files.write_conf({node: Place(switches=("l1",)) for node in NODES}, records=[])}
    )
    grows = Grows(begin(tmp_path, conf=conf, more=tree))
    try:
        grows.settle()
        grows.topology = topology_str_of(Place(), [TREE]) if IS_NEW else ""
        grows.place()
        grows.grow(8)
        grows.wait(lambda: len(grows.records()) == 3, "three records")
        job = grows.submit("--nodes=8")
        assert job.isdecimal(), job
        grows.wait(lambda: grows.shown(job, "Reason") not in ("", "None"), "Slurm has tried it")
        assert grows.shown(job, "PriorityLong") != "0", grows.shown(job, "Reason")
    finally:
        grows.slurm.stop()
