"""Writes docker-archives of images, with each layer once, and reads which packages the images have."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

SBOM = "usr/share/sunkpy/sbom.spdx.json"
"""The path in an image where `write-sbom` writes the list of packages."""


@dataclass(frozen=True, kw_only=True)
class Contents:
    """An image in an archive: its reference, the compressed size of its layers in bytes, and its packages' versions."""

    ref: str
    size: int
    packages: Mapping[str, str]


def write_docker_archive(layout: Path, archive: Path, refs: Mapping[str, str]) -> None:
    """Write all images of an OCI layout into one docker-archive; a layer that several images share is in it once.

    `refs` maps the name of an image in the layout to its reference in the archive.
    """
    manifests = []
    blobs: dict[str, Path] = {}
    for name, manifest in _manifests(layout).items():
        config, *layers = (part["digest"] for part in (manifest["config"], *manifest["layers"]))
        blobs |= {_member(digest): _blob(layout, digest) for digest in (config, *layers)}
        manifests.append(
            {"Config": _member(config), "RepoTags": [refs[name]], "Layers": [_member(layer) for layer in layers]}
        )
    with tarfile.open(archive, "w") as tar:
        for member, blob in sorted(blobs.items()):
            _add(tar, member, blob)
        text = layout / "manifest.json"
        text.write_text(json.dumps(sorted(manifests, key=lambda manifest: str(manifest["RepoTags"]))))
        _add(tar, "manifest.json", text)


def _member(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _blob(layout: Path, digest: str) -> Path:
    return layout / _member(digest)


def _add(tar: tarfile.TarFile, name: str, file: Path) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = file.stat().st_size, 0o644
    with file.open("rb") as data:
        tar.addfile(info, data)


def packages_in(layout: Path) -> dict[str, Mapping[str, str]]:
    """Return the packages of each image in an OCI layout: package → version."""
    found = {}
    for name, manifest in _manifests(layout).items():
        blobs = (_blob(layout, layer["digest"]) for layer in reversed(manifest["layers"]))
        found[name] = _listed(_topmost(blob.open("rb") for blob in blobs))
    return found


def refs_in(archive: Path) -> dict[str, str]:
    """Return image → reference of all images in a docker-archive."""
    with tarfile.open(archive) as tar:
        return {_name(ref): ref for entry in _entries(tar) for ref in entry["RepoTags"]}


def contents_of(archive: Path) -> dict[str, Contents]:
    """Return image → its size and packages, of all images in a docker-archive."""
    found = {}
    with tarfile.open(archive) as tar:
        for entry in _entries(tar):
            (ref,) = entry["RepoTags"]
            size = sum(tar.getmember(layer).size for layer in entry["Layers"])
            packages = _listed(_sbom_in(tar, entry))
            found[_name(ref)] = Contents(ref=ref, size=size, packages=packages)
    return found


def sboms_in(archive: Path) -> dict[str, bytes]:
    """Return image → its list of packages as SPDX, of all images in a docker-archive; empty for an image
    without one.
    """
    with tarfile.open(archive) as tar:
        return {_name(ref): _sbom_in(tar, entry) for entry in _entries(tar) for ref in entry["RepoTags"]}


def _sbom_in(tar: tarfile.TarFile, entry: Mapping[str, Any]) -> bytes:
    return _topmost(_opened(tar, layer) for layer in reversed(entry["Layers"]))


def _topmost(layers: Iterable[IO[bytes]]) -> bytes:
    """Return the list of packages from the topmost layer that has one. `layers`: topmost first."""
    for layer in layers:
        with layer, tarfile.open(fileobj=layer, mode="r|*") as files:
            for member in files:
                if member.name.removeprefix("./") == SBOM and (data := files.extractfile(member)):
                    return data.read()
    return b""


def _listed(sbom: bytes) -> Mapping[str, str]:
    packages = json.loads(sbom)["packages"] if sbom else ()
    return {package["name"]: package["versionInfo"] for package in packages}


def _manifests(layout: Path) -> dict[str, Any]:
    entries = json.loads((layout / "index.json").read_text())["manifests"]
    names = {entry["annotations"]["org.opencontainers.image.ref.name"]: entry["digest"] for entry in entries}
    return {name: json.loads(_blob(layout, digest).read_text()) for name, digest in names.items()}


def _entries(tar: tarfile.TarFile) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.load(_opened(tar, "manifest.json"))
    return entries


def _opened(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    data = tar.extractfile(name)
    if data is None:
        raise KeyError(name)
    return data


def _name(ref: str) -> str:
    return ref.rpartition("/")[2].partition(":")[0]
