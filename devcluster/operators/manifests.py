"""Reads the manifests of an operator, and edits them for a development cluster. Pure, except for kustomize."""

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
# Kinds to which other objects refer are applied first.
_FIRST = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "Secret", "ConfigMap")


def read(operator: Operator, module: Path, *, kubectl: Path) -> list[Json]:
    """Return the objects that install ``operator``, from its manifests in the folder ``module``."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for top in {path.split("/")[0] for path in operator.manifests}:
            # Go's copy in the module cache is read-only and shared.
            shutil.copytree(module / top, work / top, copy_function=shutil.copy, ignore=_only_manifests)
        for edit in operator.edits:
            apply_edit(work, edit)
        found = [document for path in operator.manifests for document in _documents(work / path, kubectl)]
    return prepare(operator, found)


def _only_manifests(folder: str, names: list[str]) -> set[str]:
    """Return the files that are not copied, because kustomize does not read them."""
    return {
        name
        for name in names
        if not (Path(folder) / name).is_dir() and Path(name).suffix not in (".yaml", ".yml", ".json", ".env")
    }


def apply_edit(folder: Path, edit: Edit) -> None:
    """Replace the text ``edit.old`` in a file of ``folder``.

    Raises:
        DevclusterError: the file lacks this text, so this version needs another edit.
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
    """Return the objects to apply, in their order: ``documents`` and the operator's extra ones, with local images."""
    kept = [document for document in documents if _title(document) not in operator.without]
    for document in kept:
        if document["kind"] == "Deployment":
            _dress(operator, document)
    whole = [*(dict(extra) for extra in operator.extra), *kept]
    return sorted(whole, key=lambda each: _FIRST.index(each["kind"]) if each["kind"] in _FIRST else len(_FIRST))


def _title(document: Mapping[str, object]) -> str:
    return f"{document['kind']}/{_at(document, 'metadata')['name']}"


def _at(document: Mapping[str, object], *path: str) -> Json:
    """Return the mapping at a path of keys, which the document must have."""
    value: object = document
    for key in path:
        assert isinstance(value, Mapping)
        value = value[key]
    assert isinstance(value, dict)
    return value


def _dress(operator: Operator, deployment: Json) -> None:
    """Give a Deployment one replica, the image on the nodes, and no resource requests."""
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
    """Return the local image in place of one that the manifests name.

    Raises:
        DevclusterError: no program of the operator is built for this image.
    """
    name = image.split("@")[0]
    name = name.rpartition(":")[0] if ":" in name.rsplit("/", 1)[-1] else name
    for program in operator.programs:
        if program.image == name:
            return image_ref(operator.name, program, operator.version)
    raise DevclusterError(f"{operator.name} runs {image}, and none of its programs stands for that")


def webhook_configurations(documents: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """Yield kind and name of each webhook configuration among ``documents``."""
    for document in documents:
        if document["kind"] in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
            yield str(document["kind"]), str(_at(document, "metadata")["name"])


def deployments(documents: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of each Deployment among ``documents``."""
    for document in documents:
        if document["kind"] == "Deployment":
            metadata = _at(document, "metadata")
            yield str(metadata["namespace"]), str(metadata["name"])


def resources(documents: Sequence[Json]) -> Iterator[str]:
    """Yield the names of the CRDs among ``documents``."""
    for document in documents:
        if document["kind"] == "CustomResourceDefinition":
            yield str(_at(document, "metadata")["name"])
