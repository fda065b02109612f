"""Checks whether a cluster can run on this machine: a pure function over facts that are read from it."""

import os
import shutil
from pathlib import Path

import msgspec

from devcluster import packages
from devcluster.layout import Layout

MIN_FREE_BYTES = 6 * 1024**3
LISTEN = "0A"
# apiserver, etcd and its peers, controller-manager, scheduler, CoreDNS.
PORTS = frozenset({6443, 2379, 2380, 10257, 10259, 53})


class Listener(msgspec.Struct, frozen=True):
    """A listening TCP socket. ``address``: as in /proc/net/tcp, all zeros for any address."""

    address: str
    port: int


class Facts(msgspec.Struct, frozen=True):
    """The facts of the machine that the checks use."""

    uid: int
    is_linux: bool
    has_apt: bool
    missing_packages: tuple[str, ...]
    free_bytes: int
    listeners: frozenset[Listener]
    has_cgroups: bool
    has_overlay: bool


def parse_listeners(table: str) -> frozenset[Listener]:
    """Return the listening sockets in a /proc/net/tcp or /proc/net/tcp6, proc_pid_net(5)."""
    found = set()
    for line in table.splitlines()[1:]:
        fields = line.split()
        address, port = fields[1].split(":")
        if fields[3] == LISTEN:
            found.add(Listener(address, int(port, 16)))
    return frozenset(found)


def wildcard_ports(listeners: frozenset[Listener]) -> frozenset[int]:
    """Return the ports on which a program listens at every address, so that no other program can."""
    return frozenset(listener.port for listener in listeners if not listener.address.strip("0"))


def problems(facts: Facts, layout: Layout, *, is_running: bool) -> list[str]:
    """Return what makes `up` impossible, each with what to do; empty if nothing does."""
    if not facts.is_linux:
        return ["this is not Linux: a cluster needs network namespaces and cgroups; use a Linux VM"]
    found = []
    if facts.uid != 0:
        found.append("not root: nodes are network namespaces and cgroups; run it with sudo")
    if facts.missing_packages and (facts.uid != 0 or not facts.has_apt):
        found.append(f"programs are missing: apt-get install {' '.join(facts.missing_packages)}")
    if facts.free_bytes < MIN_FREE_BYTES and not is_running:
        found.append(
            f"no disk: {facts.free_bytes / 1024**3:.1f} GiB free below {layout.root}, "
            f"{MIN_FREE_BYTES / 1024**3:.0f} GiB needed; free some or set SUNKPY_DEVCLUSTER_HOME to a larger disk"
        )
    # Only a program that listens at every address can block the cluster, which has its own addresses.
    taken = wildcard_ports(facts.listeners) & PORTS if not is_running else frozenset()
    found.extend(
        f"port {port} is taken: a program listens on it at every address; stop it (`ss -ltnp 'sport = :{port}'`)"
        for port in sorted(taken)
    )
    if not facts.has_cgroups:
        found.append("no cgroups below /sys/fs/cgroup: mount -t cgroup2 none /sys/fs/cgroup")
    if not facts.has_overlay:
        found.append("the kernel has no overlayfs: modprobe overlay")
    return found


def read_facts(root: Path) -> Facts:
    """Read the facts of this machine."""
    folder = next(path for path in (root, *root.parents) if path.exists())
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    listeners = [parse_listeners(path.read_text()) for path in tables if path.exists()]
    file_systems = Path("/proc/filesystems")
    return Facts(
        uid=os.geteuid(),
        is_linux=file_systems.exists(),
        has_apt=shutil.which("apt-get") is not None,
        missing_packages=tuple(packages.missing_packages(packages.is_there)),
        free_bytes=shutil.disk_usage(folder).free,
        listeners=frozenset().union(*listeners),
        has_cgroups=any(Path("/sys/fs/cgroup").iterdir()) if Path("/sys/fs/cgroup").exists() else False,
        has_overlay=file_systems.exists()
        and ("overlay" in file_systems.read_text() or any(Path("/lib/modules").glob("*/kernel/fs/overlayfs/*"))),
    )
