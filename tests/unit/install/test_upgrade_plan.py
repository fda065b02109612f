"""What an upgrade makes anew is told before."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import click.testing
import pytest
import yaml

from sunkpy.cli import main
from sunkpy.install.upgrade_plan import EFFECTS, Restart, describe, restarts

Manifest = dict[str, object]


def workload(kind: str, name: str, part: str, image: str = "a:1", **spec: object) -> Manifest:
    labels = {"app.kubernetes.io/component": part}
    template = {"spec": {"containers": [{"image": image}]}}
    return {"kind": kind, "metadata": {"name": name, "labels": labels}, "spec": {"template": template, **spec}}


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (workload("NodeSet", "h100", "compute"), workload("NodeSet", "h100", "compute"), []),
        (workload("NodeSet", "h100", "compute"), workload("NodeSet", "h100", "compute", replicas=3), []),
        (workload("NodeSet", "h100", "compute"), workload("NodeSet", "h100", "compute", "a:2"), [("compute", "anew")]),
        (
            workload("NodeSet", "a", "compute"),
            workload("NodeSet", "a", "compute", features=["ib"]),
            [("compute", "anew")],
        ),
        (workload("Deployment", "s", "syncer"), {"kind": "ConfigMap"}, [("syncer", "removed")]),
        ({"kind": "ConfigMap"}, workload("Deployment", "s", "syncer"), [("syncer", "new")]),
    ],
)
def test_pods_follow_their_template(before: Manifest, after: Manifest, found: list[tuple[str, str]]):
    assert [(each.part, each.change) for each in restarts([before], [after])] == found


def test_each_line_says_what_people_notice():
    roll = Restart(part="compute", kind="NodeSet", name="h100", change="anew")
    gone = Restart(part="syncer", kind="Deployment", name="s", change="removed")
    assert describe([roll, gone]) == f"NodeSet h100: made anew. {EFFECTS['compute']}\nDeployment s: removed"
    assert describe([]) == "No pod is made anew."


HELM = """#!/bin/sh
case "$1" in
  get) cat "$(dirname "$0")/now" ;;
  upgrade)
    echo "$@" > "$(dirname "$0")/asked"
    [ "$2" != bad ] || { echo "no such value" >&2; exit 1; }
    cat "$(dirname "$0")/then" ;;
esac
"""


@pytest.fixture
def helm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that answers as helm does."""
    (tmp_path / "helm").write_text(HELM)
    (tmp_path / "helm").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "now").write_text(yaml.safe_dump(workload("StatefulSet", "slurm-slurmctld", "slurmctld")))
    then = yaml.safe_dump(workload("StatefulSet", "slurm-slurmctld", "slurmctld", "a:2"))
    (tmp_path / "then").write_text(json.dumps({"manifest": f"---\n{then}"}))
    return tmp_path


def test_the_command_asks_helm_and_changes_nothing(helm: Path):
    (helm / "values.yaml").write_text("{}")
    words = ["upgrade-plan", "slurm", "charts/slurm", "-n", "slurm", "-f", str(helm / "values.yaml"), "--set", "a=b"]
    done = click.testing.CliRunner().invoke(main, words)
    assert (done.exit_code, done.output) == (0, f"StatefulSet slurm-slurmctld: made anew. {EFFECTS['slurmctld']}\n")
    asked = (helm / "asked").read_text()
    assert f"--namespace slurm --values {helm / 'values.yaml'} --set a=b --dry-run=server" in asked


def test_what_helm_refuses_is_told_in_its_words(helm: Path):
    done = click.testing.CliRunner().invoke(main, ["upgrade-plan", "bad", "charts/slurm"])
    assert (done.exit_code, done.output) == (1, "sunkpy: helm upgrade bad failed: no such value\n")
