"""The table of versions in docs/limits.md is what code, charts and images are of."""

from __future__ import annotations

import re
import tomllib

import yaml

from devcluster.binaries import KUBERNETES_RELEASES
from sunkpy.core.nodeset.version_skew import version_skew
from sunkpy.slurm.transport import VERSIONS
from tests.unit.docs.source import ROOT

SECTION = (ROOT / "docs/limits.md").read_text().partition("\n## Versions\n")[2].partition("\n## ")[0]
TESTED, EXPECTED = (
    {cells[0]: cells[column] for line in SECTION.splitlines() if len(cells := line.strip("| ").split(" | ")) == 3}
    for column in (1, 2)
)
CHARTS = [yaml.safe_load(file.read_text()) for file in (ROOT / "charts").glob("*/Chart.yaml")]
OLDEST, NEWEST = re.findall(r"2\d\.\d\d", EXPECTED["Slurm"])


def test_kubernetes_and_python():
    assert TESTED["Kubernetes"] == ", ".join(KUBERNETES_RELEASES)
    minimum = EXPECTED["Kubernetes"].removesuffix(" and newer")
    assert {chart["kubeVersion"] for chart in CHARTS} == {f">={minimum}.0-0"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={TESTED['Python'].removesuffix(' on amd64')}"


def test_slurm_and_its_api():
    recorded = {path.name for path in (ROOT / "tests/unit/slurm/recorded").iterdir() if path.is_dir()}
    assert set(re.findall(r"(2\d\.\d\d)\.\d", TESTED["Slurm"])) == {OLDEST, NEWEST} == recorded
    assert EXPECTED["Slurm"].endswith(f"REST API {VERSIONS[-1]} or newer")
    assert f'hint="Slurm {OLDEST} or newer is needed"' in (ROOT / "sunkpy/slurm/transport.py").read_text()
    assert {chart["appVersion"] for chart in CHARTS if chart["name"] == "slurm"} == {OLDEST}
    suites = re.findall(r"SUITE=\w+ +Slurm (\S+)", (ROOT / "slurm-images/Dockerfile").read_text())
    assert suites == [OLDEST, NEWEST]


def test_the_operator_may_be_one_minor_version_newer_than_chart_slurm():
    assert EXPECTED["sunkpy"] == "chart slurm one minor version older than the operator"
    assert version_skew({"helm.sh/chart": "slurm-0.1.0"}, operator="0.2.0") == ""
    assert version_skew({"helm.sh/chart": "slurm-0.1.0"}, operator="0.3.0")
