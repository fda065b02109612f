"""What helm tells an admin after an install: commands that work on this release. `helm template` does not print it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.unit.charts.rendering import CHARTS, of_kind, render, run_helm, with_images
from tests.unit.charts.test_login import ANN

EVERYTHING = {"users": {"people": {"ann": ANN}}, "page": {"enabled": True}}
NOTHING = {"login": {"enabled": False}, "scheduler": {"enabled": False}}
TOLD = """Slurm cluster demo is ready when these NodeSets and pods are ready:

  kubectl -n research get nodesets,pods
  kubectl -n research exec -it demo-login-0 -- bash -l    # then: sinfo, sbatch, srun
  kubectl -n research get service demo-login    # the address of ssh for people

Pods with `schedulerName: demo` run as Slurm jobs. This shows why a pod waits:

  kubectl describe pod POD

The homes are on a claim. If an NFS server is behind it, name the server in home.protect.servers. Otherwise pods of
other namespaces can mount it, and as root read all homes. Name namespaces whose pods have to mount it, such as that of
a provisioner, in home.protect.namespaces. This says which server it is:

  kubectl sunk doctor -n research    # the line "file servers"

This opens the page, which asks each viewer for a token of Kubernetes:

  kubectl -n research port-forward service/demo-page 8017:80    # then: http://localhost:8017
"""


OPERATOR = """The operator works when this Deployment is ready:

  kubectl -n research get deployment demo-operator

Next, install a Slurm cluster in a namespace of its own. CHART is charts/slurm of a clone, or for a release
oci://REGISTRY/charts/slurm --version {version}, from the same REGISTRY:

  helm install slurm CHART -n {namespace} --create-namespace --wait -f values.yaml
"""


def _notes(folder: Path, values: object, name: str = "slurm") -> str:
    chart = shutil.copytree(CHARTS / name, folder / name)
    notes = chart / "templates" / "NOTES.txt"
    shown = '{{- define "told" }}' + notes.read_text() + '{{ end }}\ntold: {{ include "told" . | toJson }}\n'
    (chart / "templates" / "told.yaml").write_text(shown)
    args = ("template", "demo", str(chart), "--namespace", "research", "--show-only", "templates/told.yaml")
    return yaml.safe_load(run_helm(*args, values=with_images(name, values)))["told"]


def test_what_is_told_after_an_install_names_what_the_release_has(tmp_path):
    assert _notes(tmp_path, EVERYTHING) == TOLD
    services = of_kind(render("slurm", EVERYTHING), "Service")
    assert "demo-login" in services
    assert [port["port"] for port in services["demo-page"]["spec"]["ports"]] == [80]
    config = of_kind(render("slurm", EVERYTHING), "ConfigMap")["demo-scheduler"]["data"]["config.yaml"]
    assert yaml.safe_load(config)["schedulerName"] == "demo"
    login = of_kind(render("slurm", EVERYTHING), "StatefulSet")["demo-login"]["spec"]["template"]["spec"]
    assert login["containers"][0]["name"] == "login"


def test_what_is_not_there_is_not_told_of(tmp_path):
    on_a_server = {"home": {"volume": {"nfs": {"server": "nas", "path": "/home"}}}}
    assert _notes(tmp_path, NOTHING | on_a_server) == TOLD.partition("  kubectl -n research exec")[0]


@pytest.mark.parametrize("protect", [{"enabled": False}, {"servers": ["nas"]}])
def test_whose_file_server_is_named_hears_nothing_of_it(tmp_path: Path, protect: object):
    assert "home.protect" not in _notes(tmp_path, {"home": {"protect": protect}})


@pytest.mark.parametrize(("namespaces", "namespace"), [([], "slurm"), (["chem", "physics"], "chem")])
def test_after_the_operator_a_slurm_cluster_is_next_where_it_may_be(
    tmp_path: Path, namespaces: list[str], namespace: str
):
    version = yaml.safe_load((CHARTS / "slurm" / "Chart.yaml").read_text())["version"]
    told = _notes(tmp_path, {"nodeSetNamespaces": namespaces}, "sunkpy")
    assert told == OPERATOR.format(version=version, namespace=namespace)
    assert "demo-operator" in of_kind(render("sunkpy"), "Deployment")
