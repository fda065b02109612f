"""Makes the pause image, and loads image archives into every node's containerd."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from devcluster.binaries import Binaries
from devcluster.errors import DevclusterError
from devcluster.layout import NodeLayout
from devcluster.shell import run
from devcluster.state import write_atomically

PAUSE_IMAGE = "docker.io/sunkpy/pause:1"


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    archive.addfile(info, io.BytesIO(data))


def _link(archive: tarfile.TarFile, name: str, target: str) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    archive.addfile(info)


def _tar(files: Mapping[str, tuple[bytes, int]], links: Mapping[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, (data, mode) in files.items():
            _add(archive, name, data, mode)
        for name, target in (links or {}).items():
            _link(archive, name, target)
    return buffer.getvalue()


class OneFile(msgspec.Struct, frozen=True, kw_only=True):
    """An image with one program: its path, the user who runs it, and links to it."""

    tag: str
    path: str
    user: str = ""
    links: tuple[str, ...] = ()


def architecture() -> str:
    """Return the architecture of this machine as images name it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def one_file_image(image: OneFile, program: bytes, *, architecture: str) -> bytes:
    """Return a docker-archive of an image with one program and nothing else; the same input gives the same bytes."""
    links = {link.lstrip("/"): image.path for link in image.links}
    layer = _tar({image.path.lstrip("/"): (program, 0o755)}, links)
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Entrypoint": [image.path]} | ({"User": image.user} if image.user else {}),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": [image.tag], "Layers": ["layer.tar"]}]).encode()
    return _tar({"layer.tar": (layer, 0o644), name: (config, 0o644), "manifest.json": (manifest, 0o644)})


def pause_archive(binaries: Binaries) -> Path:
    """Return the archive of the pause image in the cache; make it if it is missing."""
    archive = binaries.pause / "pause.tar"
    if not archive.exists():
        write_archive(archive, OneFile(tag=PAUSE_IMAGE, path="/pause"), binaries.pause / "pause")
    return archive


def write_archive(archive: Path, image: OneFile, program: Path) -> None:
    """Write the archive of an image with one program, for this machine's architecture."""
    write_atomically(archive, one_file_image(image, program.read_bytes(), architecture=architecture()))


def read_identity(archive: Path) -> dict[str, str]:
    """Return the tags and ids of the images in a docker-archive or OCI archive, read from its index."""
    try:
        with tarfile.open(archive) as tar:
            names = tar.getnames()
            if "manifest.json" in names:
                entries = json.load(_member(tar, "manifest.json"))
                return {tag: entry["Config"] for entry in entries for tag in entry.get("RepoTags") or []}
            index = json.load(_member(tar, "index.json"))
    except (tarfile.TarError, KeyError, OSError) as error:
        raise DevclusterError(
            f"{archive} is not an image archive ({str(error).splitlines()[0]}); "
            "make one with `buildah push IMAGE docker-archive:FILE:TAG`"
        ) from error
    key = "org.opencontainers.image.ref.name"
    return {
        manifest["annotations"][key]: manifest["digest"]
        for manifest in index["manifests"]
        if key in manifest.get("annotations", {})
    }


def _member(tar: tarfile.TarFile, name: str) -> io.BufferedReader:
    member = tar.extractfile(name)
    if member is None:
        raise KeyError(name)
    return member  # type: ignore[return-value]


def load_into(node: NodeLayout, archives: list[Path], binaries: Binaries) -> list[str]:
    """Import the images that the node does not have yet; return the imported tags."""
    ctr = [str(binaries.containerd / "ctr"), "-a", str(node.containerd_socket), "-n", "k8s.io", "images"]
    record = node.home / "images.json"
    known = msgspec.json.decode(record.read_bytes(), type=dict[str, str]) if record.exists() else {}
    present = set(run([*ctr, "ls", "-q"]).split())
    imported: list[str] = []
    for archive in archives:
        identity = read_identity(archive)
        if identity and all(known.get(tag) == digest and tag in present for tag, digest in identity.items()):
            continue
        # ctr unpacks it itself (--local): an older cluster may still run containerd 1.x, which cannot.
        run([*ctr, "import", "--local", str(archive)], timeout_s=900)
        known |= identity
        imported.extend(identity)
        write_atomically(record, msgspec.json.encode(known))
    return imported


def load(nodes: list[NodeLayout], archives: list[Path], binaries: Binaries) -> dict[str, list[str]]:
    """Load ``archives`` into all ``nodes`` at the same time; return the imported tags by node name."""
    for archive in archives:
        read_identity(archive)
    with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
        results = pool.map(lambda node: load_into(node, archives, binaries), nodes)
        return {node.name: tags for node, tags in zip(nodes, results, strict=True)}
