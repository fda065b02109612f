"""Makes and removes the cluster's cgroups, on version 1 (a tree per controller), version 2 (one tree) and hybrids."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from devcluster.errors import DevclusterError

Write = Callable[[Path, str], None]


def _write(path: Path, text: str) -> None:
    path.write_text(text)


class Hierarchy(msgspec.Struct, frozen=True):
    """One mounted cgroup tree; ``controllers`` are the mount options of version 1, empty for version 2."""

    mount: Path
    version: int
    controllers: frozenset[str] = frozenset()


def parse_hierarchies(mountinfo: str) -> list[Hierarchy]:
    """Return the cgroup trees below /sys/fs/cgroup in a /proc/self/mountinfo, proc_pid_mountinfo(5)."""
    found: dict[Path, Hierarchy] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        mount = Path(before.split()[4])
        kind, _, options = after.split()[:3]
        if not mount.is_relative_to("/sys/fs/cgroup") or kind not in ("cgroup", "cgroup2"):
            continue
        controllers = frozenset(options.split(",")) - {"rw", "ro"} if kind == "cgroup" else frozenset()
        found[mount] = Hierarchy(mount, 1 if kind == "cgroup" else 2, controllers)
    return sorted(found.values(), key=lambda tree: tree.mount)


def working(trees: list[Hierarchy]) -> list[Hierarchy]:
    """Return the trees with controllers: on a hybrid machine, those of version 1."""
    return [tree for tree in trees if tree.version == 1] or trees


def hierarchies() -> list[Hierarchy]:
    """Return all cgroup trees of this machine; runc leaves folders in each, so the clean-up needs all of them."""
    trees = parse_hierarchies(Path("/proc/self/mountinfo").read_text())
    if not trees:
        raise DevclusterError(
            "no cgroup file system below /sys/fs/cgroup; mount one (`mount -t cgroup2 none /sys/fs/cgroup`)"
        )
    return trees


def tracking(trees: list[Hierarchy]) -> Hierarchy:
    """Return the tree that lists the cluster's processes: on version 1, one whose controller has no side effects."""
    ranked = [tree for wish in ("pids", "freezer") for tree in trees if wish in tree.controllers]
    return (ranked or working(trees))[0]


def create(path: str, trees: list[Hierarchy], *, write: Write = _write) -> None:
    """Make cgroup ``path`` (relative, nested) in every tree with controllers, so that a kubelet can use it.
    Idempotent.
    """
    for tree in working(trees):
        folder = tree.mount
        for part in Path(path).parts:
            if tree.version == 2:
                _delegate(folder, is_root=folder == tree.mount, write=write)
            folder = folder / part
            folder.mkdir(exist_ok=True)
            if "cpuset" in tree.controllers:
                _inherit_cpuset(folder)


def delegate(path: str, trees: list[Hierarchy], *, write: Write = _write) -> None:
    """Enable all controllers for the children of cgroup ``path`` (version 2 only)."""
    for tree in working(trees):
        if tree.version == 2:
            _delegate(tree.mount / path, is_root=False, write=write)


def _inherit_cpuset(folder: Path) -> None:
    # A version 1 cpuset starts empty and refuses every process until it is filled.
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not (folder / name).read_text().strip():
            (folder / name).write_text((folder.parent / name).read_text())


def _delegate(folder: Path, *, is_root: bool, write: Write) -> None:
    wanted = (folder / "cgroup.controllers").read_text().split()
    have = (folder / "cgroup.subtree_control").read_text().split()
    missing = " ".join(f"+{name}" for name in wanted if name not in have)
    if not missing:
        return
    try:
        write(folder / "cgroup.subtree_control", missing)
    except OSError as error:
        if error.errno != errno.EBUSY or not is_root:
            raise
        # Inside a container the "root" holds processes, and a cgroup with processes may not delegate: move them down.
        leaf = folder / "init"
        leaf.mkdir(exist_ok=True)
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                write(leaf / "cgroup.procs", pid)
        write(folder / "cgroup.subtree_control", missing)


def pids(path: str, trees: list[Hierarchy]) -> set[int]:
    """Return every process in cgroup ``path`` or below, in any tree."""
    found: set[int] = set()
    for folder in folders(path, trees):
        with contextlib.suppress(FileNotFoundError, OSError):
            found.update(int(pid) for pid in (folder / "cgroup.procs").read_text().split())
    return found


def folders(path: str, trees: list[Hierarchy]) -> Iterator[Path]:
    """Yield the folders of cgroup ``path`` in every tree, children first."""
    for tree in trees:
        for folder, _, _ in os.walk(tree.mount / path, topdown=False):
            yield Path(folder)


def remove(path: str, trees: list[Hierarchy]) -> list[Path]:
    """Remove cgroup ``path`` with its children; return the folders that remain because they have processes."""
    left = []
    for folder in folders(path, trees):
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            left.append(folder)
    return left
