"""Slurm's topology on real daemons: files are tried before they are loaded, and single nodes get their place."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from devcluster.waiting import wait_until
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.topology import files
from sunkpy.core.topology.places import Place, switch_names, topology_str_of
from sunkpy.slurm import NodeChange, Slurm
from sunkpy.slurm.errors import Rejected
from tests.integration.slurm.asking import connect
from tests.integration.slurm.daemons import RealSlurm
from tests.integration.slurm.gangs import NODES, five_nodes
from tests.integration.slurm.kept_topology import bring, keep_topology, loads
from tests.roots import RELEASE, SUITE
from tests.unit.charts.rendering import of_kind, render

pytestmark = pytest.mark.integration

TRIAL_PORT: Final = 6899
IS_NEW: Final = RELEASE != "24.11"
PLACES: Final = {
    "n1": Place(switches=switch_names(("s1", "l1"))),
    "n2": Place(switches=switch_names(("s1", "l2"))),
    "n3": Place(switches=switch_names(("s1", "l1"))),
    "n4": Place(switches=switch_names(("b" * 32, "s" * 32))),  # GKE's block and sub-block
    "n5": Place(switches=switch_names(("s1", "l2"))),
}
CONF: Final = files.write_conf(PLACES, records=[])
LEAVES: Final = "".join(f"SwitchName=r{number} Nodes={node}\n" for number, node in enumerate(NODES))
HAND_WRITTEN: Final = f"{LEAVES}SwitchName=top Switches=r[0-{len(NODES) - 1}]\n"


class Running:
    """A Slurm whose slurmctld has what the chart makes of values."""

    def __init__(self, folder: Path, values: dict[str, object]) -> None:
        data = of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]
        conf = "".join(line + "\n" for line in data["slurm.conf"].splitlines() if line.startswith("Topology"))
        machines = five_nodes(
            conf=conf + ("PartitionName=b Nodes=ALL Topology=block\n" if "block" in data.get(files.YAML, "") else "")
        )
        own = {name: text for name, text in data.items() if name.startswith("topology.")}
        more = {**own, "job_submit.lua": data["job_submit.lua"]}
        machines = msgspec.structs.replace(machines, files={**machines.files, **more}, slurmctld=keep_topology(own))
        self.slurm = RealSlurm(folder, SUITE, machines=machines, people={"k8s": 2000})
        idle = ("sinfo", "--noheader", "--states=idle", "--Node", "--format=%N")
        self.wait(lambda: len(set(self.run(*idle)[1].split())) == len(NODES), "all nodes are idle")

    def run(self, *command: str) -> tuple[int, str]:
        return self.slurm.run_as("slurm", *command)

    def submit(self, *words: str) -> tuple[int, str]:
        return self.run("sbatch", "--parsable", "--mem=10", "--output=/dev/null", *words, "--wrap=true")

    def ranks(self, *words: str, env: str = "") -> list[str]:
        """The nodes of four tasks of one job, by their rank. `env`: a variable of who submits it."""
        asked = ("--nodes=4", "--nodelist=n1,n2,n3,n5", "--ntasks-per-node=1", "--mem=10", "--output=/var/log/ranks")
        script = "srun --label bash -c 'echo $SLURMD_NODENAME' 2> /dev/null | sort -n"
        code, said = self.run("env", *filter(None, [env]), "sbatch", "--wait", *asked, *words, f"--wrap={script}")
        assert code == 0, said
        return [line.split()[1] for line in (self.slurm.root / "var/log/ranks").read_text().splitlines()]

    def write(self, name: str, text: str) -> None:
        bring(self.slurm, name, text)

    def says(self) -> str:
        return (self.slurm.root / "var/log/slurmctld.log").read_text()

    def loads(self) -> int:
        return loads(self.slurm)

    def shown(self) -> str:
        return self.run("scontrol", "show", "topology")[1]

    def wait(self, holds, what: str) -> None:
        if not wait_until(holds, timeout_s=90):
            raise AssertionError(f"{what}: not so:\n{self.slurm.logs()}")

    def load(self, name: str, text: str) -> None:
        """Bring a file, and wait until it is loaded. A slurmctld that ends before would go back to the one before."""
        loads = self.loads()
        self.write(name, text)
        self.wait(lambda: self.loads() > loads, "it is loaded")

    def restart(self) -> None:
        starts = self.slurm.starts("slurmctld")

        def is_up() -> bool:
            return self.slurm.starts("slurmctld") > starts and "UP" in self.run("scontrol", "ping")[1]

        self.slurm.send("TERM", "slurmctld")
        if not wait_until(is_up, timeout_s=30):  # one that gets TERM while it starts may never end: as the kubelet does
            self.slurm.send("KILL", "slurmctld")
            self.wait(is_up, "it is up")

    async def tell(self, node: str, topology: str) -> None:
        slurm: Slurm = connect(self.slurm, "slurm")
        try:
            await slurm.update_node(node, NodeChange(topology_str=topology))
        finally:
            await slurm.close()

    async def submit_segments(self, partition: str, *, nodes: int, segment: int) -> str:
        """What Slurm says of such a job, as the scheduler submits one."""
        slurm = connect(self.slurm, "slurm")
        script = "#!/bin/bash\ntrue\n"
        spec = JobSpec(
            name="seg", partition=partition, minimum_nodes=nodes, maximum_nodes=nodes, tasks=nodes, script=script
        )
        spec = msgspec.structs.replace(spec, segment=segment, memory_mib_per_node=10, hold=True)
        try:
            job = await slurm.submit_job(spec)
        finally:
            await slurm.close()
        return self.run("scontrol", "show", "job", str(job.job_id))[1]

    async def record(self, node: str) -> str:
        slurm = connect(self.slurm, "slurm")
        try:
            return (await slurm.node(node)).topology
        finally:
            await slurm.close()


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    topology = {"source": "auto", "plugins": ["tree", "block"], "blockSizes": [2]} if IS_NEW else {"source": "auto"}
    running = Running(tmp_path_factory.mktemp("labelled"), {"topology": topology})
    yield running
    running.slurm.stop()


def test_a_file_on_which_slurmctld_would_end_is_not_loaded_and_told(labelled: Running):
    name = files.YAML if IS_NEW else files.CONF
    before = labelled.shown()
    labelled.write(name, "- nonsense: [\n" if IS_NEW else "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n")
    says = "start-slurmctld: the new topology is not loaded, because slurmctld would not start with it"
    labelled.wait(lambda: says in labelled.says(), "it is told")
    labelled.restart()
    assert labelled.shown() == before
    assert labelled.submit("--nodes=1")[0] == 0


@pytest.mark.skipif(IS_NEW, reason="26.05 is told of each node")
def test_24_11_loads_the_tree_and_keeps_it_over_a_restart(labelled: Running):
    conf = labelled.run("scontrol", "show", "config")[1]
    assert "TopoOptional" in conf
    assert labelled.submit("--nodes=5")[0] == 0  # before there is a tree
    labelled.load(files.CONF, CONF)
    assert "SwitchName=s1/l1 Level=0" in labelled.shown()
    assert labelled.submit("--nodes=2", "--switches=1", "--nodelist=n1,n3")[0] == 0
    labelled.restart()
    assert "SwitchName=s1/l1 Level=0" in labelled.shown()


@pytest.mark.skipif(not IS_NEW, reason="24.11 is told by its file")
def test_26_05_is_told_of_single_nodes_and_of_blocks_by_its_file(labelled: Running):
    labelled.write(files.YAML, files.write_yaml(["tree", "block"], ["b1", "b2"], [2]))
    labelled.wait(
        lambda: "BlockName=b1" in labelled.run("scontrol", "show", "topology", "block")[1], "blocks are loaded"
    )
    for node, place in PLACES.items():
        block = {"n1": "b1", "n3": "b1", "n2": "b2", "n5": "b2"}.get(node, "")
        wanted = topology_str_of(msgspec.structs.replace(place, block=block), ["tree", "block"])
        asyncio.run(labelled.tell(node, wanted))
        assert asyncio.run(labelled.record(node)) == wanted
    assert "SwitchName=s1/l1 Level=0 LinkSpeed=0 Nodes=n[1,3]" in labelled.shown()
    assert labelled.submit("--nodes=2", "--switches=1")[0] == 0
    assert labelled.submit("--nodes=5")[0] == 0
    shown = asyncio.run(labelled.submit_segments("b", nodes=2, segment=2))
    assert "SegmentSize=2" in shown, shown
    with pytest.raises(Rejected):
        asyncio.run(labelled.tell("n4", "tree:all:s2/:s2/l3,block:b9"))


@pytest.mark.skipif(not IS_NEW, reason="24.11 has no record of it")
def test_26_05_does_not_load_a_file_that_lacks_what_the_record_of_a_node_that_could_be_names(labelled: Running):
    """Nobody sees that record, and slurmctld would not start any more."""
    labelled.write(files.YAML, files.write_yaml(["tree", "block"], ["b1", "b2", "b9"], [2]))
    labelled.wait(lambda: "BlockName=b9" in labelled.run("scontrol", "show", "topology", "block")[1], "b9 is loaded")
    record = ("CPUs=2", "RealMemory=1000", "Topology=block:b9", "state=FUTURE")
    assert labelled.run("scontrol", "create", "nodename=gpu_potential_1f3c5a_1", *record)[0] == 0
    labelled.write(files.YAML, files.write_yaml(["tree", "block"], ["b1", "b2"], [2]))
    says = "the new topology is not loaded yet, because it lacks units that records of nodes name: block:b9"
    labelled.wait(lambda: says in labelled.says(), "it is told")
    labelled.run("scontrol", "delete", "nodename=gpu_potential_1f3c5a_1")
    labelled.wait(
        lambda: "BlockName=b9" not in labelled.run("scontrol", "show", "topology", "block")[1], "it is loaded"
    )


@pytest.mark.skipif(not IS_NEW, reason="24.11 has no record of it")
def test_26_05_does_not_load_a_file_that_lacks_what_records_name_until_they_do_not(labelled: Running):
    asyncio.run(labelled.tell("n4", "tree:all:s2/:s2/l3,block:b2"))
    labelled.write(files.YAML, files.write_yaml(["tree", "block"], ["b1", "b3"], [2]))
    says = "the new topology is not loaded yet, because it lacks units that records of nodes name: block:b2"
    labelled.wait(lambda: says in labelled.says(), "it is told")
    labelled.restart()
    assert "BlockName=b2" in labelled.run("scontrol", "show", "topology", "block")[1]
    loads = labelled.loads()
    for node in ("n2", "n4", "n5"):
        asyncio.run(labelled.tell(node, "tree:all:unknown"))
    labelled.wait(lambda: labelled.loads() > loads, "it is loaded")
    assert "BlockName=b3" in labelled.run("scontrol", "show", "topology", "block")[1]
    labelled.restart()
    assert asyncio.run(labelled.record("n1")).endswith("block:b1")


@pytest.mark.skipif(not IS_NEW, reason="24.11 has all nodes in its file")
def test_26_05_starts_with_nodes_in_its_file_and_the_record_of_a_node_beats_it(labelled: Running):
    where = {name: ("all", *place.switches) for name, place in PLACES.items()}
    for node, path in where.items():
        asyncio.run(labelled.tell(node, f"tree:{':'.join(path)}"))
    earlier = where | {"n1": where["n2"]}
    labelled.load(files.YAML, files.write_yaml(["tree", "block"], ["b1"], [2], paths=earlier))
    for _ in range(2):
        assert "SwitchName=s1/l1 Level=0 LinkSpeed=0 Nodes=n[1,3]" in labelled.shown()
        assert labelled.submit("--nodes=5")[0] == 0
        labelled.restart()
    assert asyncio.run(labelled.record("n1")) == "tree:all:s1/:s1/l1"


@pytest.mark.skipif(not IS_NEW, reason="24.11 lays ranks as nodes have registered, whatever --distribution says")
def test_ranks_in_sbatch_follow_the_leaves_if_nobody_says_otherwise(labelled: Running):
    for node, place in PLACES.items():
        asyncio.run(labelled.tell(node, topology_str_of(place, ["tree"])))
    leaves = [PLACES[node].switches[-1] for node in labelled.ranks()]
    assert len(leaves) == 4
    assert leaves[0] == leaves[1] != leaves[2] == leaves[3]
    as_registered = labelled.ranks("--distribution=cyclic")
    assert labelled.ranks(env="SLURM_DISTRIBUTION=cyclic") == as_registered, "a person's own word counts"


def test_a_file_that_cannot_be_tried_now_is_tried_again(labelled: Running):
    """Here because another process has the port of the trial."""
    name, text = (files.YAML, files.write_yaml(["tree", "block"], ["b1", "b5"], [2])) if IS_NEW else (files.CONF, CONF)
    said = labelled.says().count("could not be tried")
    taken: list[socket.socket] = []

    def take() -> bool:
        with contextlib.suppress(OSError):
            taken.append(socket.create_server(("127.0.0.1", TRIAL_PORT)))
        return bool(taken)

    labelled.wait(take, "the port is free")  # tests of the other release may try a topology just now
    loads = labelled.loads()
    with taken[0]:
        labelled.write(name, f"{text}# tried again\n")
        labelled.wait(lambda: labelled.says().count("could not be tried") > said, "it is told")
    labelled.wait(lambda: labelled.loads() > loads, "it is loaded")


def test_a_slurmctld_that_ends_while_it_loads_a_file_starts_with_the_one_before(labelled: Running):
    """Twice, and the file is given up: whatever ended slurmctld, jobs go on."""
    state = labelled.slurm.root / "var/lib/slurm/state"
    labelled.wait(lambda: not (state / "topology.loading").exists(), "nothing is loaded")
    for _ in range(2):
        before = (state / "topology.before").exists()
        (state / "topology.before").mkdir(exist_ok=before)
        for file in (state / "topology").iterdir():
            (state / "topology.before" / file.name).write_text(file.read_text())
        (state / "topology.loading").touch()
        labelled.restart()
        assert not (state / "topology.loading").exists()
    assert (state / "topology.refused").exists()
    assert labelled.says().count("start-slurmctld: slurmctld ended while it loaded a topology") == 2
    assert labelled.submit("--nodes=1")[0] == 0


def test_nodes_of_a_hand_written_tree_get_jobs_once_it_is_read_again(tmp_path: Path):
    """Which the syncer brings about when they have registered: it writes the same file with another last line."""
    values = {"slurmConfig": {"conf": {"TopologyPlugin": "topology/tree"}, "files": {files.CONF: HAND_WRITTEN}}}
    running = Running(tmp_path, values)
    try:
        assert "configuration is not available" in running.submit("--nodes=2")[1]
        running.write(files.CONF, files.with_digest(HAND_WRITTEN, [f"{node} uid" for node in NODES]))
        running.wait(lambda: running.submit("--nodes=2")[0] == 0, "a job of two nodes is taken")
    finally:
        running.slurm.stop()
