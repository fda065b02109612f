"""An OCI layout of images on disk: filled from archives, with an index of platforms, and pushed by skopeo.

Layers in the layout are compressed as in the registry, so each digest is known before anything is pushed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.shell import CommandFailed, run

PROGRAMS = {"skopeo": "skopeo"}  # program -> Debian package
INDEX = "application/vnd.oci.image.index.v1+json"
NAME = "org.opencontainers.image.ref.name"
NOT_THERE = ("manifest unknown", "name unknown", "denied")
"""Registries' answers for a tag that they do not have; `denied` is some registries' answer for a new repository."""


@dataclass(frozen=True)
class Layout:
    """A folder with an OCI layout: images by name."""

    folder: Path

    def take(self, name: str, *, archive: Path, ref: str) -> None:
        """Add an image of a docker-archive under this name, or replace the one that has it."""
        _skopeo("copy", "--quiet", f"docker-archive:{archive}:{ref}", self._source(name))

    def join(self, name: str, parts: Sequence[str]) -> None:
        """Add an index of images in the layout, one for each platform."""
        found = self._named()
        manifests = [
            {key: found[part][key] for key in ("mediaType", "digest", "size")} | {"platform": self._platform(part)}
            for part in parts
        ]
        text = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).encode()
        digest = digest_of(text)
        self._blob(digest).write_bytes(text)
        entry = {"mediaType": INDEX, "digest": digest, "size": len(text), "annotations": {NAME: name}}
        index = {"schemaVersion": 2, "manifests": [*(found | {name: entry}).values()]}
        (self.folder / "index.json").write_text(json.dumps(index))

    def digest(self, name: str) -> str:
        """Return the digest of the image or index with this name."""
        return str(self._named()[name]["digest"])

    def push(self, name: str, ref: str, *, plain_http: bool) -> None:
        """Push the image or index with this name to a registry unchanged, with all images of an index."""
        tls = ("--dest-tls-verify=false",) if plain_http else ()
        _skopeo("copy", "--quiet", "--all", "--preserve-digests", *tls, self._source(name), f"docker://{ref}")

    def _source(self, name: str) -> str:
        return f"oci:{self.folder}:{name}"

    def _named(self) -> dict[str, dict[str, Any]]:
        entries = json.loads((self.folder / "index.json").read_text())["manifests"]
        return {entry["annotations"][NAME]: entry for entry in entries}

    def _platform(self, name: str) -> dict[str, str]:
        manifest = json.loads(self._blob(self.digest(name)).read_text())
        config = json.loads(self._blob(manifest["config"]["digest"]).read_text())
        return {"os": config["os"], "architecture": config["architecture"]}

    def _blob(self, digest: str) -> Path:
        return self.folder / "blobs" / digest.replace(":", "/")


def manifest_in(ref: str, *, plain_http: bool) -> bytes | None:
    """Return the unchanged manifest that a registry has under a reference; None if it has none.

    Raises:
        CommandFailed: the registry did not answer, or with another error.
    """
    tls = ("--tls-verify=false",) if plain_http else ()
    try:
        return _skopeo("inspect", "--raw", *tls, f"docker://{ref}").encode()
    except CommandFailed as error:
        if any(text in error.output for text in NOT_THERE):
            return None
        raise


def digest_of(manifest: bytes) -> str:
    """Return the digest of a manifest, as registries compute it."""
    return f"sha256:{hashlib.sha256(manifest).hexdigest()}"


def _skopeo(*arguments: str) -> str:
    # The machine's policy demands signatures of images from elsewhere; these were made here.
    return run(["skopeo", "--insecure-policy", *arguments], timeout_s=3600)
