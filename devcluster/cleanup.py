"""Takes a cluster down in any state, without the apiserver, which may be dead.

The order matters: processes end first, then mounts, then the kernel's objects, and the folder last. The folder has the
slot number, so an interrupted clean-up can be repeated. The bridge is the last of the kernel's objects: the cluster
that has it has the slot, and the slot gives the names of all other objects.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from devcluster import cgroups, mounts, network, state
from devcluster.errors import DevclusterError
from devcluster.layout import Layout, NodeLayout
from devcluster.node import PROGRAMS
from devcluster.process import Daemons, marked_pids, start_ticks
from devcluster.waiting import wait_until

SHORT_LIVED = frozenset({"openssl", "mount", "umount", "unshare", "nsenter", "ctr"})


def take_down(layout: Layout) -> None:
    """Remove every trace of the cluster, but nothing of another cluster that has its slot by now."""
    trees = cgroups.hierarchies() if network.hold_slot(layout) else []
    kill_all(layout, trees)
    mounts.remove_all(layout.home)
    if not wait_until(lambda: not cgroups.remove(layout.cgroup, trees), timeout_s=15):
        raise DevclusterError(f"cgroups cannot be removed: {cgroups.remove(layout.cgroup, trees)}")
    if trees:
        remove_mount_points(layout)
        network.down_bridge(layout)
    remove_home(layout)


def remove_home(layout: Layout) -> None:
    """Remove the folder of the cluster; what says that there is one goes last."""
    for folder in layout.home.iterdir():
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)
            if folder.exists():
                shutil.rmtree(folder)
    shutil.rmtree(layout.home)


def kill_all(layout: Layout, trees: list[cgroups.Hierarchy]) -> None:
    """Kill (SIGKILL) every process in the cluster's cgroup or with its mark in the environment.

    A killed `up` may have left a program that is about to mount something: such orphans are killed too.
    """
    kill_until_gone(
        lambda: cgroups.pids(layout.cgroup, trees) | set(marked_pids(layout.home)) | set(orphans(layout.home)),
        of=layout.name,
    )


def kill_until_gone(find: Callable[[], set[int]], *, of: str) -> None:
    """Kill (SIGKILL) every process that ``find`` returns, until it returns none. ``of``: the name for errors."""

    def gone() -> bool:
        alive = {pid for pid in find() if pid != os.getpid() and start_ticks(pid) is not None}
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not alive

    if not wait_until(gone, timeout_s=30, every_s=0.1):
        raise DevclusterError(f"processes of {of} survive SIGKILL: {sorted(find())}")


def power_off(node: NodeLayout, daemons: Daemons) -> None:
    """End all that runs on ``node``, after its network was cut, so that no peer notices; only its disk stays."""
    trees = cgroups.hierarchies()
    network.cut(node)
    kill_until_gone(lambda: cgroups.pids(node.cgroup, trees) | in_network(node.netns), of=node.name)
    for program in PROGRAMS:
        daemons.stop(node.daemon(program))
    mounts.remove_all(node.home)


def in_network(netns: Path) -> set[int]:
    """Return every process in the network namespace of ``netns``: programs of the node, and shims of its pods."""
    wanted, found = netns.stat(), set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            if os.path.samestat(link.stat(), wanted):
                found.add(int(link.parts[2]))
    return found


def orphans(home: Path) -> list[int]:
    """Return the running short-lived programs of `up` with a path below ``home`` in their arguments."""
    found = []
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            argv = cmdline.read_bytes().decode(errors="replace").split("\0")
            if Path(argv[0]).name in SHORT_LIVED and any(f"{home}/" in f"{word}/" for word in argv[1:]):
                found.append(int(cmdline.parent.name))
    return found


def remove_mount_points(layout: Layout) -> None:
    """Remove the folders over which nodes mounted their own, if they are empty and no other cluster needs them.

    Other clusters are known by their bridges, which have other names while this cluster has its slot.
    """
    with state.locked(state.machine_lock()):
        if network.other_bridges(layout):
            return
        for path in layout.node(1).own:
            for folder in (path, path.parent):
                with contextlib.suppress(OSError):
                    folder.rmdir()
