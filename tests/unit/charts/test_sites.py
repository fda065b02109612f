"""Public configurations as values: each key is taken, said by another value, or refused, as the page says."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.unit.charts.rendering import CHARTS, Manifest, Refused, helm, of_kind, render
from tests.unit.charts.sites import CONF, FOLDER, OF_SLURM, RELIES, SITES, Line, rows, words_of_chart, written

GIVEN: Final = "images."
"""What each site says and none of these files."""
ASKED: Final = '{{ include "slurm.confMap" (dict "root" $ "path" "slurmConfig.conf" "wanted" .Values "lists" dict) }}'


def _values(site: str) -> dict[str, object]:
    values: dict[str, object] = yaml.safe_load((FOLDER / f"{site}.yaml").read_text())
    return values


def _conf(site: str) -> str:
    (data,) = (
        each["data"]
        for name, each in of_kind(render("slurm", _values(site)), "ConfigMap").items()
        if name == "demo-slurm-config"
    )
    text: str = data["slurm.conf"]
    return text


def _words(value: str) -> set[str]:
    return {word.lower() for word in value.split(",")}


def _lines(site: str) -> dict[str, str]:
    found = dict(re.findall(r"(?m)^(\w+)=(.*)$", _conf(site)))
    return {key.lower(): value for key, value in found.items()}


def test_each_site_has_its_values():
    assert {file.stem for file in FOLDER.glob("*.yaml")} == {*SITES, "keys"}


@pytest.mark.parametrize("site", OF_SLURM)
def test_what_is_taken_stands_in_slurm_conf(site: str):
    """With what the chart adds; what another value says as well."""
    lines = _lines(site)
    wrong = {
        row.key: (lines.get(row.key.lower()), row.gives)
        for row in rows(site)
        if row.gives and not _words(row.gives) <= _words(lines.get(row.key.lower(), ""))
    }
    assert wrong == {}
    said = _values(site)["slurmConfig"]["conf"]
    assert {row.key for row in rows(site) if row.what == "taken"} - set(said) - {"PropagateResourceLimits"} == set()


@pytest.mark.parametrize("site", OF_SLURM)
def test_nothing_is_set_that_the_site_did_not_have(site: str):
    assert (
        set(_values(site)["slurmConfig"]["conf"]) - {row.key for row in rows(site) if row.what in ("taken", "by")}
        == set()
    )


@pytest.mark.parametrize("site", SITES)
def test_the_values_that_say_it_otherwise_are_there(site: str):
    assert [row.says for row in rows(site) if row.what == "by" and not _is_said(_values(site), row.says)] == []


def _is_said(values: object, path: str) -> bool:
    """True if values, or the chart's defaults, have this path."""
    defaults = yaml.safe_load((CHARTS / "slurm/values.yaml").read_text())
    return path.startswith(GIVEN) or any(_is_at(each, path) for each in (values, defaults))


def _is_at(values: object, path: str) -> bool:
    if path in ("", "gpu"):
        return True  # of any NodeSet
    if not isinstance(values, Mapping):
        return False
    if path.startswith("<name>"):
        return any(_is_at(each, path[7:]) for each in values.values())
    return any(
        _is_at(value, path[len(key) :].removeprefix("."))
        for key, value in values.items()
        if path == key or path.startswith(f"{key}.")
    )


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart of the template alone that refuses keys of slurm.conf: it is asked in a tenth of the time."""
    folder = tmp_path_factory.mktemp("asked")
    (folder / "templates").mkdir()
    (folder / "files").mkdir()
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: asked\nversion: 0.1.0\n")
    (folder / "templates/conf.yaml").write_text(ASKED)
    for file in ("templates/_conf.tpl", "files/slurm-conf.yaml"):
        (folder / file).write_text((CHARTS / "slurm" / file).read_text())
    return folder


@pytest.mark.parametrize(
    ("site", "key", "value"),
    [(site, row.key, row.was) for site in OF_SLURM for row in rows(site) if row.what == "refused"],
)
def test_what_is_refused_is_refused_in_these_words(asked: Path, site: str, key: str, value: str):
    words = words_of_chart(key, value)
    assert words
    command = [helm(), "template", "demo", str(asked), "--values", "-"]
    done = subprocess.run(command, input=json.dumps({key: value}), capture_output=True, text=True, check=False)
    assert f"{CONF}.{key}: {words}" in done.stderr


@pytest.mark.parametrize("site", OF_SLURM)
def test_what_another_value_says_or_nothing_refuses_is_told_so(site: str):
    """A key that the chart sets is not "left out", nor one that it refuses."""
    assert [row.key for row in rows(site) if row.what == "left out" and words_of_chart(row.key, row.was)] == []
    assert [row.key for row in rows(site) if row.what == "by" and words_of_chart(row.key, row.was) == RELIES] == []


@pytest.mark.parametrize(
    ("site", "name", "line"),
    [(site, name, line) for site in OF_SLURM for name, line in SITES[site].get("partitions", {}).items()],
)
def test_a_partition_has_what_its_line_had(site: str, name: str, line: Line):
    (found,) = re.findall(rf"(?m)^PartitionName={name} (.*)$", _conf(site))
    has = dict(word.split("=", 1) for word in found.split())
    nodes = SITES[site]["nodes"]
    assert {key: has[key] for key in line} == {key: written(value) for key, value in line.items()} | {
        "Nodes": nodes.get(str(line["Nodes"]), line["Nodes"])
    }


def _refused(values: Mapping[str, object]) -> str:
    with pytest.raises(Refused) as refused:
        render("slurm", values)
    return str(refused.value)


def test_values_of_slinky_that_are_refused_are_refused_by_name():
    site = "aws-p5"
    for row in (row for row in rows(site) if row.what == "refused"):
        path = row.key.replace("compute.nodesets[]", "nodeSets.hp-node").split(".")
        known = 2 if path[0] == "nodeSets" else 1 if path[0] == "login" else 0
        values: object = row.was
        for key in reversed(path[: known + 1]):
            values = {key: values}
        assert f"additional properties '{path[known]}' not allowed" in _refused(values), row.key


@pytest.fixture(scope="module")
def of_aws() -> list[Manifest]:
    return list(render("slurm", _values("aws-p5")))


def test_the_nodes_of_aws_have_their_devices_and_folders(of_aws: list[Manifest]):
    pod = of_kind(of_aws, "NodeSet")["hp-node"]["spec"]["template"]["spec"]
    (slurmd,) = [each for each in pod["containers"] if each["name"] == "slurmd"]
    assert slurmd["resources"]["limits"] == {"vpc.amazonaws.com/efa": 16}
    assert {mount["mountPath"] for mount in slurmd["volumeMounts"]} >= {"/fsx", "/home"}
    claims = {
        volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume
    }
    assert claims == {"fsx-claim", "openzfs-claim"}
    assert pod["nodeSelector"]["node.kubernetes.io/instance-type"] == "ml.p5.48xlarge"


def test_all_else_of_aws_runs_on_the_small_machines(of_aws: list[Manifest]):
    kinds = ("Deployment", "StatefulSet")
    chosen = {
        (name, each["spec"]["template"]["spec"].get("nodeSelector", {}).get("node.kubernetes.io/instance-type"))
        for kind in kinds
        for name, each in of_kind(of_aws, kind).items()
    }
    assert {kind for _, kind in chosen} == {"ml.m5.2xlarge"}, chosen
