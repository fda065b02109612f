"""The manifests of an operator, as an administrator of this cluster would have edited them. Pure but for kustomize."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from devcluster.errors import DevclusterError
from devcluster.operators.catalog import Edit, Operator
from devcluster.operators.program import image_ref
from devcluster.shell import run

Json = dict[str, object]
# What others refer to goes first.
_FIRST = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "Secret", "ConfigMap")


def read(operator: Operator, module: Path, *, kubectl: Path) -> list[Json]:
    """The objects that install ``operator``, whose module is in the folder ``module``."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for top in {path.split("/")[0] for path in operator.manifests}:
            # Go's copy is read-only and everybody's.
            shutil.copytree(module / top, work / top, copy_function=shutil.copy, ignore=_only_manifests)
        for edit in operator.edits:
            apply_edit(work, edit)
        found = [document for path in operator.manifests for document in _documents(work / path, kubectl)]
    return prepare(operator, found)


def _only_manifests(folder: str, names: list[str]) -> set[str]:
    """What is not copied: files that kustomize does not read."""
    return {
        name
        for name in names
        if not (Path(folder) / name).is_dir() and Path(name).suffix not in (".yaml", ".yml", ".json", ".env")
    }


def apply_edit(folder: Path, edit: Edit) -> None:
    """Replace a text that must be there.

    Raises:
        DevclusterError: it is not, so this version wants another edit.
    """
    path = folder / edit.file
    text = path.read_text()
    if edit.old not in text:
        raise DevclusterError(f"{edit.file} does not say {edit.old!r} in this version: look what it says instead")
    path.chmod(0o644)
    path.write_text(text.replace(edit.old, edit.new))


def _documents(path: Path, kubectl: Path) -> list[Json]:
    text = run([str(kubectl), "kustomize", str(path)]) if path.is_dir() else path.read_text()
    return [document for document in yaml.safe_load_all(text) if document]


def prepare(operator: Operator, documents: Sequence[Json]) -> list[Json]:
    """``documents`` and the operator's own extra ones, with the images on the nodes, in the order to apply them."""
    kept = [document for document in documents if _title(document) not in operator.without]
    for document in kept:
        if document["kind"] == "Deployment":
            _dress(operator, document)
    whole = [*(dict(extra) for extra in operator.extra), *kept]
    return sorted(whole, key=lambda each: _FIRST.index(each["kind"]) if each["kind"] in _FIRST else len(_FIRST))


def _title(document: Mapping[str, object]) -> str:
    return f"{document['kind']}/{_at(document, 'metadata')['name']}"


def _at(document: Mapping[str, object], *path: str) -> Json:
    """The mapping at a path that every such document has."""
    value: object = document
    for key in path:
        assert isinstance(value, Mapping)
        value = value[key]
    assert isinstance(value, dict)
    return value


def _dress(operator: Operator, deployment: Json) -> None:
    """One replica of each operator, with the image that is on the nodes, and nothing kept from the workloads."""
    _at(deployment, "spec")["replicas"] = 1
    containers = _at(deployment, "spec", "template", "spec")["containers"]
    assert isinstance(containers, list)
    for container in containers:
        container["image"] = image_for(operator, container["image"])
        container["imagePullPolicy"] = "IfNotPresent"
        container.pop("resources", None)
        if operator.args:
            container["args"] = [*container.get("args", []), *operator.args]
        if operator.env:
            added = [{"name": name, "value": value} for name, value in operator.env.items()]
            container["env"] = [*container.get("env", []), *added]


def image_for(operator: Operator, image: str) -> str:
    """Our image for one that the manifests name.

    Raises:
        DevclusterError: nothing is built for it.
    """
    name = image.split("@")[0]
    name = name.rpartition(":")[0] if ":" in name.rsplit("/", 1)[-1] else name
    for program in operator.programs:
        if program.image == name:
            return image_ref(operator.name, program, operator.version)
    raise DevclusterError(f"{operator.name} runs {image}, and none of its programs stands for that")


def webhook_configurations(documents: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """Kind and name of those among ``documents``."""
    for document in documents:
        if document["kind"] in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
            yield str(document["kind"]), str(_at(document, "metadata")["name"])


def deployments(documents: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """Namespace and name of those among ``documents``."""
    for document in documents:
        if document["kind"] == "Deployment":
            metadata = _at(document, "metadata")
            yield str(metadata["namespace"]), str(metadata["name"])


def resources(documents: Sequence[Json]) -> Iterator[str]:
    """Names of the CRDs among ``documents``."""
    for document in documents:
        if document["kind"] == "CustomResourceDefinition":
            yield str(_at(document, "metadata")["name"])
