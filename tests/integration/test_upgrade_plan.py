"""What `sunkpy upgrade-plan` says of a release, by the real helm and a real apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click.testing
import pytest

from devcluster.waiting import wait_until
from sunkpy.cli import main
from sunkpy.install.upgrade_plan import EFFECTS
from tests.integration.apiserver import Apiserver, alone
from tests.integration.test_immutable_values import STATEFULSETS, upgrade
from tests.unit.charts.rendering import CHARTS, IMAGES, helm

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    with alone(tmp_path_factory.mktemp("api")) as api:
        assert upgrade(api, {}, "sunkpy") == ""
        values = {"nodeSets": {"gpu": {}}, "scheduler": {"gpuSharing": "plugin"}}
        assert wait_until(lambda: upgrade(api, values) == "", timeout_s=60)  # the kind is new
        yield api


def plan(api: Apiserver, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str]:
    """Exit code and output of the command."""
    monkeypatch.setenv("PATH", str(Path(helm()).parent))
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig("admin")))
    images = [f"--set=images.{name}={ref}" for name, ref in IMAGES["slurm"]["images"].items()]
    command = ["upgrade-plan", "demo", str(CHARTS / "slurm"), "--namespace=research", *images, *words]
    done = click.testing.CliRunner().invoke(main, command)
    return done.exit_code, done.output


def test_it_says_what_is_made_anew_and_changes_nothing(api: Apiserver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    before = api.ask("admin", "GET", STATEFULSETS).json()["items"]
    values = tmp_path / "values.yaml"
    values.write_text("{nodeSets: {h200: {}}, scheduler: {gpuSharing: plugin}}")
    more = "scheduler.devicePlugin.resources.requests.cpu=20m"
    assert plan(api, monkeypatch, "-f", str(values), "--set", more) == (
        0,
        "NodeSet gpu: removed; its nodes are drained, and each slurmd pod is removed when the jobs there have ended\n"
        "NodeSet h200: made\n"
        f"DaemonSet demo-device-plugin: pods are replaced; {EFFECTS['device-plugin']}\n"
        f"StatefulSet demo-slurmctld: pods are replaced; {EFFECTS['slurmctld']}\n"
        f"Deployment demo-slurmrestd: pods are replaced; {EFFECTS['slurmrestd']}\n",
    )
    assert api.ask("admin", "GET", STATEFULSETS).json()["items"] == before


def test_values_of_the_release_make_nothing_anew(api: Apiserver, monkeypatch: pytest.MonkeyPatch):
    assert plan(api, monkeypatch, "--reuse-values") == (0, "No pod restarts.\n")


def test_what_helm_refuses_is_told_in_its_words(api: Apiserver, monkeypatch: pytest.MonkeyPatch):
    code, said = plan(api, monkeypatch, "--set", "slurmctld.persistence.size=2Gi")
    assert code == 1
    assert said.startswith("sunkpy: helm upgrade demo failed: Error: UPGRADE FAILED: ")
    assert "slurmctld.persistence.size: 2Gi, but the volume was made with 20Gi" in said
