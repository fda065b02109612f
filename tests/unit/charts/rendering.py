"""Render the charts as `helm install` would, and read what comes out."""

from __future__ import annotations

import functools
import json
import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import kubernetes_validate

from devcluster.binaries import HELM, KUBERNETES_VERSION, Binaries
from devcluster.shell import CommandFailed, run
from devcluster.state import default_cache
from tests.unit.charts import renders

ROOT = Path(__file__).resolve().parents[3]
CHARTS = ROOT / "charts"
Manifest = dict[str, object]
IMAGES: Mapping[str, Mapping[str, object]] = {
    "slurm": {
        "images": {
            name: f"registry.example.com/sunkpy/{name}:trixie-1"
            for name in ("slurmctld", "slurmdbd", "slurmrestd", "slurmd", "login", "sssd", "mariadb")
        }
        | {"sunkpy": "registry.example.com/sunkpy/sunkpy:0.1.0"}
    },
    "sunkpy": {"image": "registry.example.com/sunkpy/sunkpy:0.1.0"},
    "openldap": {
        "images": {
            "openldap": "registry.example.com/sunkpy/openldap:trixie-1",
            "sunkpy": "registry.example.com/sunkpy/sunkpy:0.1.0",
        }
    },
}
"""What an admin has to say of images, by chart."""
_SHORT_LIVED = {"GOGC": "off", "GOMEMLIMIT": "1GiB"}
"""A program of Go that ends before its garbage matters: a tenth less of a processor."""


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Reads YAML as helm and Kubernetes do: y and n are booleans, and 1e3 is a number."""

    bool_values = yaml.SafeLoader.bool_values | {"y": True, "n": False}


Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))
Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile("^[0-9]+[eE][0-9]+$"), list("0123456789"))


class Refused(Exception):
    """What helm said."""


@functools.cache
def helm() -> str:
    """The helm on PATH, or the pinned one, which is built on a machine that has neither."""
    found = shutil.which("helm")
    if found:
        return found
    binaries = Binaries(default_cache())
    binaries.ensure([HELM], progress=print)
    return str(binaries.helm / "helm")


def run_helm(*args: str, values: Mapping[str, object] | None = None) -> str:
    """Output of helm for a chart with extra values.

    Raises:
        Refused: helm failed.
    """
    whole = [helm(), *args, "--kube-version", KUBERNETES_VERSION, "--values", "-"]
    try:
        return run(whole, stdin=json.dumps(values or {}), env=_SHORT_LIVED)  # JSON is YAML
    except CommandFailed as error:
        raise Refused(error.output) from error


def with_images(chart: str, values: Mapping[str, object] | None = None) -> dict[str, object]:
    """Values that say all that has no default; images of their own stay."""
    whole = {**IMAGES[chart], **(values or {})}
    if "images" in whole:
        whole["images"] = {**IMAGES[chart]["images"], **whole["images"]}
    return whole


def render(chart: str, values: Mapping[str, object] | None = None, *, release: str = "demo") -> Sequence[Manifest]:
    """All objects of a release in the namespace `research`, with `IMAGES`.

    Raises:
        Refused: helm failed.
    """
    whole = json.dumps(with_images(chart, values), sort_keys=True)
    rendered = json.loads(_rendered(chart, whole, release))
    if isinstance(rendered, str):
        raise Refused(rendered)
    manifests: list[Manifest] = rendered
    return manifests


@functools.cache
def _rendered(chart: str, values: str, release: str) -> str:
    """As JSON: who changes what they got changes it for themselves, and YAML takes twenty times as long to read. If
    helm failed, what it said.
    """
    folder = CHARTS / chart

    def make() -> str:
        try:
            return json.dumps(render_folder(folder, json.loads(values), release=release))
        except Refused as refused:
            return json.dumps(str(refused))

    program = f"{helm()} {Path(helm()).stat().st_mtime_ns}"
    how = Path(__file__).read_text()  # how helm is called here
    return renders.kept((renders.digest(folder), program, KUBERNETES_VERSION, how, values, release), make)


def render_folder(
    chart: Path, values: Mapping[str, object] | None = None, *, release: str = "demo", namespace: str = "research"
) -> Sequence[Manifest]:
    """The same of a chart elsewhere, with no other values than these."""
    text = run_helm("template", release, str(chart), "--namespace", namespace, values=values)
    return [manifest for manifest in yaml.load_all(text, Loader=Loader) if manifest]


def copy_charts(folder: Path, *, version: str) -> None:
    """Make the folder, with all charts, of this version."""
    shutil.copytree(CHARTS, folder)
    for file in folder.glob("*/Chart.yaml"):
        about = yaml.safe_load(file.read_text())
        file.write_text(yaml.safe_dump(about | {"version": version, "appVersion": version}))


def check_accepted(manifest: Mapping[str, object]) -> None:
    """Raise unless Kubernetes takes this object."""
    _check_accepted(json.dumps(manifest, sort_keys=True))


@functools.cache
def _check_accepted(manifest: str) -> None:
    """Most objects are the same for all values, and each check reads the schema of all kinds."""
    kubernetes_validate.validate(json.loads(manifest), KUBERNETES_VERSION, strict=True)


def of_kind(manifests: Sequence[Manifest], kind: str) -> dict[str, Manifest]:
    """The objects of a kind, by name."""
    return {manifest["metadata"]["name"]: manifest for manifest in manifests if manifest["kind"] == kind}
