"""Names that YAML reads as something else, such as on, null and 2024."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import pytest
import yaml

from tests.unit.charts.rendering import CHARTS, Loader, Manifest, render_folder, with_images
from tests.unit.charts.restarts import KEY

WORDS = ("on", "y", "null", "2024", "1e3")


def _slurm(word: str) -> dict[str, object]:
    """Values with this name wherever a name is the whole text."""
    lettered = word if word[0].isalpha() else f"n{word}"
    pods = {"priorityClassName": word}
    claim = {"storageClass": word}
    return {
        "clusterName": word,
        "keys": {f"existing{of}Secret": word for of in ("Slurm", "Jwt", "SshHost", "ComputeSshHost")},
        "users": {
            "people": {lettered: {"uid": 2001, "sshKeys": [KEY]}},
            "sssd": {"enabled": True, "existingSecret": word},
        },
        "topology": {"source": "configMap", "name": word},
        "partitions": {word: {"nodeSets": [lettered]}},
        "hooks": {"prologConfigMap": word, "epilogConfigMap": word},
        "slurmctld": {"persistence": {"existingClaim": word}, **pods},
        "accounting": {"database": {"existingSecret": word, "persistence": claim}, "backup": {"persistence": claim}},
        "login": {
            "sets": {lettered: pods},
            "perUser": {"enabled": True, "everybody": True},
            "ssh": {"existingCASecret": word},
            **pods,
        },
        "home": {"storageClass": word},
        "scheduler": {"name": word, "aliases": [f"{word}-1", word], "defaultPartition": word, "gpuSharing": "plugin"},
        "compute": {
            "ssh": {"enabled": True},
            "services": {word: {"script": "#!/bin/sh\n"}},
            "runtimeClassName": word,
            **pods,
        },
        "nodeSets": {lettered: {"image": "registry.example.com/slurmd:1"}},
        "metricsSecret": word,
        "volumeMetrics": {"when": "always"},
        "networkPolicies": {"enabled": True},
        "alerts": {"enabled": True},
        "dashboards": {"enabled": True},
        "page": {"enabled": True},
    }


def _sunkpy(word: str) -> dict[str, object]:
    lock = {"enabled": True, "key": word, "allowedNamespaces": [word]}
    return {"metricsSecret": word, "priorityClassName": word, "lock": lock, "nodeSetNamespaces": [word]}


def _openldap(word: str) -> dict[str, object]:
    return {
        "admin": {"existingSecret": word},
        "priorityClassName": word,
        "persistence": {"storageClass": word},
        "networkPolicy": {"namespaces": [word]},
    }


VALUES = {"slurm": _slurm, "sunkpy": _sunkpy, "openldap": _openldap}


def _made(chart: str, word: str, values: Mapping[str, object]) -> Sequence[Manifest]:
    """All objects of a release of this name in a namespace of this name, with the settings in them read."""
    whole = with_images(chart, VALUES[chart](word) | values)
    manifests = render_folder(CHARTS / chart, whole, release=word, namespace=word)
    for manifest in manifests:
        settings = (manifest.get("data") or {}).get("config.yaml")
        if manifest["kind"] == "ConfigMap" and settings:
            manifest["data"]["config.yaml"] = yaml.load(settings, Loader=Loader)
    return manifests


def _renamed(manifests: Sequence[Manifest], before: str, after: str) -> Sequence[Manifest]:
    """The same with another name, and without checksums."""
    text = re.sub("[0-9a-f]{64}", "checksum", json.dumps(manifests))
    renamed: Sequence[Manifest] = json.loads(text.replace(before, after))
    return renamed


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    ("chart", "values"),
    [
        ("slurm", {"podMonitor": {"enabled": True}}),
        ("sunkpy", {"podMonitor": {"enabled": True}}),
        ("sunkpy", {"serviceMonitor": {"enabled": True}}),
        ("openldap", {}),
    ],
)
def test_a_name_that_yaml_reads_as_something_else_stays_a_name(chart: str, values: dict[str, object], word: str):
    harmless = f"{word}kk"
    made, expected = _made(chart, word, values), _made(chart, harmless, values)
    assert _renamed(made, word, word) == _renamed(expected, harmless, word)


def test_monitors_that_find_services_have_such_names_too():
    values = {"serviceMonitor": {"enabled": True}}
    assert _renamed(_made("slurm", "on", values), "on", "on") == _renamed(_made("slurm", "onkk", values), "onkk", "on")
