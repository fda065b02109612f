"""Before an upgrade, upgrade-plan says which pods it replaces."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

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
        (workload("DaemonSet", "d", "gpu"), workload("DaemonSet", "d", "gpu", "a:2"), [("gpu", "anew")]),
        (workload("Deployment", "s", "syncer"), {"kind": "ConfigMap"}, [("syncer", "removed")]),
        ({"kind": "ConfigMap"}, workload("Deployment", "s", "syncer"), [("syncer", "new")]),
    ],
)
def test_pods_follow_their_template(before: Manifest, after: Manifest, found: list[tuple[str, str]]):
    assert [(each.part, each.change) for each in restarts([before], [after])] == found


def test_each_line_says_what_people_notice():
    roll = Restart(part="compute", kind="NodeSet", name="h100", change="anew")
    gone = Restart(part="syncer", kind="Deployment", name="s", change="removed")
    assert describe([roll, gone]) == f"NodeSet h100: pods are replaced; {EFFECTS['compute']}\nDeployment s: removed"
    left_out = Restart(part="compute", kind="NodeSet", name="h100", change="removed")
    assert describe([left_out]).startswith(
        "NodeSet h100: removed; its nodes are drained, and each slurmd pod is removed when"
    )
    assert describe([]) == "No pod restarts."


HELM = """#!/bin/sh
echo "$@" >>"${0%/*}/asked"
if [ "$1" = upgrade ]; then echo '{"manifest": ""}'; fi
"""


def test_helm_is_asked_for_the_version_in_a_registry(tmp_path, monkeypatch):
    (tmp_path / "helm").write_text(HELM)
    (tmp_path / "helm").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    chart = "oci://registry.example.com/sunkpy/charts/slurm"
    done = CliRunner().invoke(main, ["upgrade-plan", "demo", chart, "--version", "0.1.1", "-n", "slurm"])
    assert done.output == "No pod restarts.\n"
    assert (tmp_path / "asked").read_text().splitlines() == [
        "get manifest demo --namespace slurm",
        f"upgrade demo {chart} --namespace slurm --version 0.1.1 --dry-run=server --output=json",
    ]
