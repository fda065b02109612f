"""The stored settings of a cluster, and the locks of commands on it."""

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
    """The stored settings of a cluster, as `up` was last asked.

    Args:
        nodes: the number of nodes that are processes.
        gpus: fake GPUs per node.
        cpus: CPUs per node; 0 for those of the machine.
        kwok: the number of simulated nodes.
        dra: pretend GPUs per node by the DRA driver; 0 for no driver.
        policies: whether NetworkPolicies are enforced.
        vms: the number of nodes that are virtual machines.
        labels: node name -> labels.
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
    """Return the folder of all clusters: ``$SUNKPY_DEVCLUSTER_HOME``, or its default."""
    return Path(os.environ.get("SUNKPY_DEVCLUSTER_HOME") or "/var/lib/sunkpy-devcluster")


def default_cache() -> Path:
    """Return the folder of the cache: ``$SUNKPY_CACHE``, or its default."""
    return Path(os.environ.get("SUNKPY_CACHE") or Path.home() / ".cache" / "sunkpy")


def spec_path(root: Path, name: str) -> Path:
    """Return the path of a cluster's spec."""
    return root / name / "cluster.json"


def load_spec(root: Path, name: str) -> Spec | None:
    """Read the spec of cluster ``name``; None if there is no such cluster."""
    path = spec_path(root, name)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Spec)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise DevclusterError(f"{path} cannot be read ({error}); remove the file and run `down` for {name}") from error


def save_spec(root: Path, spec: Spec) -> None:
    """Write a cluster's spec in one step, so that a crash leaves the old or the new one."""
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
    """Return the specs of all clusters below ``root``."""
    names = sorted(path.parent.name for path in root.glob("*/cluster.json"))
    return [spec for name in names if (spec := load_spec(root, name)) is not None]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file ``path``; the kernel releases it if the process dies."""
    file = None
    while file is None:
        file = _lock(path)
    with file:
        yield


def _lock(path: Path) -> TextIO | None:
    """Lock a file and return it; None if the last holder has removed the file, because then the lock protects
    nothing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError):
        file = stack.enter_context(path.open("w"))
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            stack.pop_all()
            return file
    return None


def cluster_lock(root: Path, name: str) -> Path:
    """Return the path of a cluster's lock, which lets one command at a time change the cluster."""
    return root / f".{name}.lock"


def remove_lock(root: Path, name: str) -> None:
    """Remove the lock file of a cluster that is gone, and the folder of clusters if it is empty; the caller has the
    lock.
    """
    cluster_lock(root, name).unlink()
    with contextlib.suppress(OSError):  # not empty
        root.rmdir()


def machine_lock() -> Path:
    """Return the path of the lock for choosing a slot: the clusters of all users of the machine share the slots."""
    folder = Path("/run/lock")
    return (folder if folder.is_dir() else Path(tempfile.gettempdir())) / "sunkpy-devcluster.lock"
