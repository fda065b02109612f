"""What is remembered of a cluster between commands, and the locks commands take on it."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import msgspec

from devcluster.errors import DevclusterError

DEFAULT_NAME = "sunkpy"


class Spec(msgspec.Struct, frozen=True):
    """What was asked for. ``labels`` is node name -> labels.

    ``gpus``, ``cpus`` and ``dra`` are per node; 0 cpus: as it has, 0 dra: no driver of devices. ``policies``:
    whether NetworkPolicies are enforced. ``vms`` are beside ``nodes``.
    """

    name: str
    slot: int
    nodes: int = 0
    gpus: int = 0
    cpus: int = 0
    kwok: int = 0
    dra: int = 0
    policies: bool = False
    vms: int = 0
    labels: dict[str, dict[str, str]] = {}


def default_root() -> Path:
    """Folder of all clusters: ``$SUNKPY_DEVCLUSTER_HOME``."""
    return Path(os.environ.get("SUNKPY_DEVCLUSTER_HOME") or "/var/lib/sunkpy-devcluster")


def default_cache() -> Path:
    """Folder of built binaries: ``$SUNKPY_CACHE``."""
    return Path(os.environ.get("SUNKPY_CACHE") or Path.home() / ".cache" / "sunkpy")


def spec_path(root: Path, name: str) -> Path:
    """Where the spec of cluster ``name`` is kept."""
    return root / name / "cluster.json"


def load_spec(root: Path, name: str) -> Spec | None:
    """Read the spec of ``name``; None when there is no such cluster."""
    path = spec_path(root, name)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Spec)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise DevclusterError(f"{path} cannot be read ({error}); remove the file and run `down` for {name}") from error


def save_spec(root: Path, spec: Spec) -> None:
    """Write the spec so that a crash leaves the old or the new one, never half of it."""
    path = spec_path(root, spec.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(spec)))


def write_atomically(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace ``path`` by ``data`` in one step."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_bytes(data)
    new.chmod(mode)
    new.replace(path)


def list_specs(root: Path) -> list[Spec]:
    """Every cluster below ``root``."""
    names = sorted(path.parent.name for path in root.glob("*/cluster.json"))
    return [spec for name in names if (spec := load_spec(root, name)) is not None]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; it ends with the process, however that ends."""
    file = None
    while file is None:
        file = _lock(path)
    with file:
        yield


def _lock(path: Path) -> TextIO | None:
    """The locked file; None when who had it before has removed it: then it locks nothing any more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError):
        file = stack.enter_context(path.open("w"))
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            stack.pop_all()
            return file
    return None


def cluster_lock(root: Path, name: str) -> Path:
    """One command at a time per cluster."""
    return root / f".{name}.lock"


def remove_lock(root: Path, name: str) -> None:
    """Whoever holds the lock of a cluster that is gone removes its file, and the folder of clusters after the last."""
    cluster_lock(root, name).unlink()
    with contextlib.suppress(OSError):  # not empty
        root.rmdir()


def machine_lock() -> Path:
    """Held while a slot is chosen: slots are shared by all users' clusters on the machine."""
    folder = Path("/run/lock")
    return (folder if folder.is_dir() else Path(tempfile.gettempdir())) / "sunkpy-devcluster.lock"
