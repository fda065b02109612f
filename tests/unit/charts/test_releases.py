"""A release replaces only the pods whose image or configuration it changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sunkpy.install.upgrade_plan import restarts
from tests.unit.charts.rendering import CHARTS, IMAGES, Manifest, copy_charts, render, render_folder, with_images
from tests.unit.charts.restarts import BASE
from tests.unit.tools.programs import load
from tests.unit.tools.releases import built

SUNKPY = {"accounts", "device-plugin", "logins", "scheduler", "syncer"}
"""The parts of chart slurm that are sunkpy's own."""
OF_VERSION = ("helm.sh/chart", "app.kubernetes.io/version")


def _released(chart: str, version: str, folder: Path, values: Mapping[str, object]) -> tuple[Sequence[Manifest], str]:
    """What the chart of a release makes, and its image of sunkpy. Each other image is the same in all releases."""
    tool = load("release")
    tool.ROOT = folder

    def digest(name: str, _: str) -> str:
        return f"sha256:{hashlib.sha256((version if name == 'sunkpy' else name).encode()).hexdigest()}"

    names = [name for name in IMAGES["slurm"]["images"] if name not in tool.SHARED]
    plan = built(tool, version, names=names, suites=("trixie",), digest=digest)
    images = tool.values_of(plan, "trixie")
    copy_charts(folder / "charts", version=version)
    tool.fill_charts(folder / "charts", images)
    return render_folder(folder / "charts" / chart, values), images["sunkpy"]


@pytest.mark.parametrize(
    ("chart", "values", "restarted"),
    [
        ("slurm", {}, {"accounts", "scheduler", "syncer"}),
        ("slurm", BASE | {"volumeMetrics": {"when": "never"}}, SUNKPY),
        ("slurm", BASE, SUNKPY | {"mariadb", "slurmctld"}),
        ("sunkpy", {}, {"operator"}),
        ("openldap", {}, set()),
    ],
)
def test_a_release_with_the_same_slurm_changes_the_image_of_sunkpy_and_labels_that_pods_do_not_have(
    chart: str, values: dict[str, Any], restarted: set[str], tmp_path: Path
):
    before, old = _released(chart, "0.1.0", tmp_path / "before", values)
    after, new = _released(chart, "0.1.1", tmp_path / "after", values)
    assert {each.part for each in restarts(before, after)} == restarted
    for manifest in (*before, *after):
        for label in OF_VERSION:
            manifest["metadata"].get("labels", {}).pop(label, None)
    assert json.loads(json.dumps(before).replace(old, new)) == after


CONF = {"slurmctld", "slurmrestd"}
FILES = {
    "check-config.sh": set(),
    "check-domain.sh": set(),
    "check-order.sh": set(),
    "epilog.sh": {"slurmctld"},
    "hooks.sh": {"slurmctld"},
    "job_submit.lua": {"slurmctld"},
    "keep_potential.sh": {"slurmctld"},
    "load_topology.sh": {"slurmctld"},
    "name-host.sh": {"compute"},
    "prolog.sh": {"slurmctld"},
    "slurm-fixed.conf.tpl": CONF,
    "slurm.conf.tpl": CONF,
    "slurmdbd-fixed.conf.tpl": {"slurmdbd"},
    "slurmdbd.conf.tpl": {"slurmdbd"},
    "sshd.pam": set(),
    "sshd_config.tpl": set(),
}
"""File of chart slurm → the parts whose pods are replaced when a release changes it.

slurmctld tells each slurmd what has changed, and sshd reads its configuration again. The file of PAM stays as it was
when the pod began.
"""


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_a_release_changes_reaches_who_reads_it(file: str, tmp_path: Path):
    values = BASE | {"compute": {"fabric": {"hostNetwork": True}}, "networkPolicies": {"enabled": False}}
    copy_charts(tmp_path / "charts", version="0.1.1")
    with (tmp_path / "charts/slurm/files" / file).open("a") as changed:
        changed.write("\n-- more\n" if file.endswith(".lua") else "\n# more\n")
    after = render_folder(tmp_path / "charts/slurm", with_images("slurm", values))
    assert {each.part for each in restarts(render("slurm", values), after)} == FILES[file]


def test_each_file_that_a_program_of_slurm_reads_is_named():
    assert {each.name for each in (CHARTS / "slurm/files").iterdir()} - set(FILES) == {
        "alerts.yaml",
        "dashboards",
        "slurm-conf.yaml",
    }
