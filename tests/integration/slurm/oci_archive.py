"""An image of this test's own, as an OCI archive: a shell and a few commands of a root, under another name."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

PROGRAMS: Final = (
    "bash",
    "sh",
    "cat",
    "chmod",
    "cp",
    "env",
    "id",
    "ls",
    "mkdir",
    "mount",
    "rm",
    "sleep",
    "touch",
    "true",
    "unshare",
)
OS_RELEASE: Final = 'NAME="Of an image"\nID=image\n'
_PLATFORM: Final = {"architecture": "amd64", "os": "linux"}


class Layer(NamedTuple):
    """One that gzip has compressed, and the digest of what it was before."""

    content: bytes
    diff_id: str


def write(
    archive: Path,
    root: Path,
    *,
    env: tuple[str, ...] = (),
    folder: str = "/work",
    entrypoint: tuple[str, ...] = (),
    more: str = "",
    layers: Sequence[Layer] = (),
) -> None:
    """`env`, `folder` and `entrypoint` as ENV, WORKDIR and ENTRYPOINT of a Dockerfile; `more` is in a file /more."""
    files = {"etc/os-release": OS_RELEASE, "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "more": more}
    layer = _layer(root, files, folder)
    config = {
        **_PLATFORM,
        "config": {"Env": list(env), "WorkingDir": folder, "Entrypoint": list(entrypoint) or None, "Cmd": ["sh"]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer), *(each.diff_id for each in layers)]},
    }
    blobs: dict[str, bytes] = {}

    def add(kind: str, content: bytes) -> dict[str, object]:
        blobs[_digest(content)] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": _digest(content), "size": len(content)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": add("config.v1+json", json.dumps(config).encode()),
        "layers": [add("layer.v1.tar", layer), *(add("layer.v1.tar+gzip", each.content) for each in layers)],
    }
    index = {"schemaVersion": 2, "manifests": [add("manifest.v1+json", json.dumps(manifest).encode())]}
    with tarfile.open(archive, "w") as tar:
        _file(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _file(tar, "index.json", json.dumps(index).encode())
        for digest, content in blobs.items():
            _file(tar, f"blobs/{digest.replace(':', '/')}", content)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _layer(root: Path, files: Mapping[str, str], folder: str) -> bytes:
    """Programs of a root with the libraries that they want."""
    wanted = {f"usr/bin/{name}" for name in PROGRAMS}
    for program in sorted(wanted):
        said = subprocess.run(
            ["chroot", root, "ldd", f"/{program}"], capture_output=True, text=True, check=False
        ).stdout
        wanted |= {f"usr{path}" for path in re.findall(r"(/lib\S+) \(0x", said)}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("bin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
        for name, mode in ((".", 0o555), ("opt", 0o555), ("links", 0o755), (folder.strip("/"), 0o755)):
            made = tarfile.TarInfo(name)
            made.type, made.mode = tarfile.DIRTYPE, mode
            tar.addfile(made)
        out_of_it = tarfile.TarInfo("links/out")
        out_of_it.type, out_of_it.linkname = tarfile.SYMTYPE, "/var/tmp"
        tar.addfile(out_of_it)
        for name in sorted(wanted):
            tar.add((root / name).resolve(), name)
        for name, text in files.items():
            _file(tar, name, text.encode())
    return out.getvalue()


def _file(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o644
    tar.addfile(info, io.BytesIO(content))
