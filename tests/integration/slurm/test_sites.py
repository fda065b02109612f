"""What Slurm itself says to public configurations as values (docs/examples/sites), each part as the check asks it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from devcluster.waiting import wait_until
from tests.integration.slurm.daemons import RealSlurm
from tests.integration.slurm.gangs import NODES, five_nodes
from tests.integration.slurm.test_check_config import check
from tests.integration.slurm.test_check_config import root as root
from tests.roots import RELEASE, SUITE
from tests.unit.charts.sites import FOLDER, SITES

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("part", ["slurmctld", "slurmdbd", "slurmd", "login"])
@pytest.mark.parametrize("site", SITES)
def test_a_site_is_accepted(root: Path, tmp_path: Path, site: str, part: str):
    values = yaml.safe_load((FOLDER / f"{site}.yaml").read_text())
    job = f"demo-check-{min(values['nodeSets'])}" if part == "slurmd" else ""  # all NodeSets have one image
    assert check(root, tmp_path / "config", part, values, job=job) == (0, "")


def test_plugins_where_debian_has_none_are_refused_by_slurm(root: Path, tmp_path: Path):
    values = {"slurmConfig": {"conf": {"PluginDir": "/usr/lib64/slurm"}}}
    code, words = check(root, tmp_path / "config", "slurmctld", values)
    assert (code, "/usr/lib64/slurm" in words) == (3, True), words


def test_what_is_left_out_as_the_default_is_accepted(root: Path, tmp_path: Path):
    conf = {"SwitchType": "switch/none", "JobCompType": "jobcomp/none"}
    for part in ("slurmctld", "slurmd"):
        assert check(root, tmp_path / part, part, {"slurmConfig": {"conf": conf}}) == (0, "")


def test_a_tree_has_the_nodes_that_were_there_when_it_was_read(tmp_path: Path):
    """As docs/surprises.md says: the file knows them by name, and Slurm as they register."""
    leaves = "".join(f"SwitchName=s{number} Nodes={node}\n" for number, node in enumerate(NODES))
    files = {"topology.conf": f"{leaves}SwitchName=top Switches=s[0-{len(NODES) - 1}]\n"}
    machines = five_nodes(conf="TopologyPlugin=topology/tree\n")
    slurm = RealSlurm(tmp_path, SUITE, machines=msgspec.structs.replace(machines, files={**machines.files, **files}))
    two = ("sbatch", "--nodes=2", "--mem=10", "--output=/dev/null", "--wrap=true")
    try:
        idle = ("sinfo", "--noheader", "--states=idle", "--Node", "--format=%N")
        ready = lambda: len(set(slurm.run_as("slurm", *idle)[1].split())) == len(NODES)  # noqa: E731
        assert wait_until(ready, timeout_s=90), slurm.logs()
        code, words = slurm.run_as("slurm", *two)
        kind = "topology" if RELEASE == "24.11" else "node"
        assert (code != 0, f"Requested {kind} configuration is not available" in words) == (True, True), words
        assert slurm.run_as("slurm", "scontrol", "reconfigure") == (0, "")
        assert wait_until(lambda: slurm.run_as("slurm", *two)[0] == 0, timeout_s=60), slurm.logs()
    finally:
        slurm.stop()
