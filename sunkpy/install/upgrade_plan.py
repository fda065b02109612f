"""Finds which workloads a `helm upgrade` of chart slurm would replace, and what people who use the cluster notice of
that.

Pods are replaced if their template changes. slurmd pods are also replaced if other fields of their NodeSet change from
which the operator makes pods.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import yaml

from sunkpy.core.nodeset.slurmd_pod import template_hash
from sunkpy.core.nodeset.spec import NodeSet

Manifest = Mapping[str, Any]

EFFECTS: Final[Mapping[str, str]] = {
    "accounts": "changes of accounts reach slurmdbd a moment later",
    "compute": "slurmd pods roll: each node is drained first, and jobs end by themselves",
    "device-plugin": "pods keep their GPUs; pods that wait for GPUs wait until the plugin is there again",
    "login": "sessions in the shared login pods end",
    "login-set": "sessions in the login pods of that set end",
    "logins": "personal login pods go on; nobody can start one for a moment",
    "mariadb": "the database restarts; slurmctld keeps its records meanwhile",
    "own-login": "personal login pods go on, and change when they are next started",
    "scheduler": "waiting pods wait a moment longer; running pods go on",
    "slurmctld": "slurmctld restarts: jobs go on, commands wait for seconds; every slurmd gets a new configuration",
    "slurmdbd": "slurmdbd restarts; slurmctld keeps its records meanwhile",
    "slurmrestd": "the syncer and the scheduler wait a moment for Slurm",
    "syncer": "cordons and drains are copied a moment later",
}
"""Component (label `app.kubernetes.io/component`) → what people notice when its pods are replaced."""
_KINDS: Final = ("DaemonSet", "Deployment", "StatefulSet", "NodeSet")
_NODESET_GOES: Final = "its nodes are drained, and each slurmd pod is removed when the jobs there have ended"


class HelmFailed(Exception):
    """helm could not be run, or ended with an error; the text says which."""


class Restart(msgspec.Struct, frozen=True, order=True):
    """A workload that an upgrade makes (`change` is `new`), removes (`removed`), or whose pods it replaces (`anew`).
    `part`: its component of the chart.
    """

    part: str
    kind: str
    name: str
    change: str

    @property
    def effect(self) -> str:
        """What people notice of the change; empty for a component that `EFFECTS` does not have, and for a workload that
        is made or removed (except a NodeSet that is removed).
        """
        if (self.kind, self.change) == ("NodeSet", "removed"):
            return _NODESET_GOES
        return EFFECTS.get(self.part, "") if self.change == "anew" else ""


def restarts(before: Sequence[Manifest], after: Sequence[Manifest]) -> list[Restart]:
    """Return the workloads that an upgrade makes or removes, or whose pods it replaces, from the manifests before and
    after it, sorted by component.
    """
    old, new = _templates(before), _templates(after)
    found = []
    for key in old.keys() | new.keys():
        kind, name, part = key
        if old.get(key) != new.get(key):
            change = "anew" if key in old and key in new else "new" if key in new else "removed"
            found.append(Restart(part=part, kind=kind, name=name, change=change))
    return sorted(found)


def _templates(manifests: Sequence[Manifest]) -> dict[tuple[str, str, str], object]:
    return {
        (each["kind"], each["metadata"]["name"], _part(each)): _shape(each)
        for each in manifests
        if each["kind"] in _KINDS
    }


def _shape(manifest: Manifest) -> object:
    """Return what the workload's pods are made from, to compare two versions; for a NodeSet, a hash of it."""
    if manifest["kind"] == "NodeSet":
        return template_hash(msgspec.convert(manifest, NodeSet))
    return manifest["spec"]["template"]


def _part(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("labels", {}).get("app.kubernetes.io/component", ""))


def describe(found: Sequence[Restart]) -> str:
    """Return the plan of an upgrade as text, with a line for each workload."""
    if not found:
        return "No pod restarts."
    words = {"anew": "pods are replaced", "new": "made", "removed": "removed"}
    lines = (f"{each.kind} {each.name}: {words[each.change]}" + (each.effect and f"; {each.effect}") for each in found)
    return "\n".join(lines)


def plan(release: str, chart: str, namespace: str, options: Sequence[str]) -> list[Restart]:
    """Return what an upgrade would change, from helm's answers about the release now and after the upgrade.

    Args:
        release: the name of the release.
        chart: folder or reference of the chart.
        namespace: the namespace of the release; empty means that of the kubeconfig.
        options: as for `helm upgrade`: `--values`, `--set`, `--reuse-values`.

    Raises:
        HelmFailed: there is no such release, the values are refused, or helm is not installed.
    """
    there = ["--namespace", namespace] if namespace else []
    now = _helm("get", "manifest", release, *there)
    asked = ("upgrade", release, chart, *there, *options, "--dry-run=server", "--output=json")
    then = json.loads(_helm(*asked))["manifest"]
    return restarts(*([doc for doc in yaml.safe_load_all(text) if doc] for text in (now, then)))


def _helm(*args: str) -> str:
    try:
        done = subprocess.run(["helm", *args], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise HelmFailed("there is no helm on PATH") from error
    if done.returncode:
        raise HelmFailed(f"helm {' '.join(args[:2])} failed: {done.stderr.strip()}")
    return done.stdout
