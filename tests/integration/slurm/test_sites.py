"""What Slurm itself says to public configurations as values (docs/examples/sites), each part as the check asks it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.integration.slurm.test_check_config import check
from tests.integration.slurm.test_check_config import root as root
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
