"""Makes the own disk of a virtual machine, with the programs and settings of its node, and runs commands in it."""

import hashlib
import shlex
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec
import yaml

from devcluster import images, node, pki
from devcluster.binaries import Binaries
from devcluster.errors import DevclusterError
from devcluster.layout import Layout, NodeLayout
from devcluster.process import Daemon, Daemons
from devcluster.shell import failed
from devcluster.state import write_atomically
from devcluster.vm.base import HERE, make_disk
from devcluster.waiting import wait_until

PORT = 7000
DISK_SIZE = "20G"
UNIT = "node.service"
UNITS = (UNIT, "daemon@.service")
SERVE = ("socat", "-t", "86400", f"TCP-LISTEN:{PORT},reuseaddr,fork", "EXEC:/bin/bash /disk/serve")


def disk(machine: NodeLayout) -> Path:
    """Return the path of the machine's own disk."""
    return machine.home / "disk.img"


def make(
    layout: Layout, machine: NodeLayout, binaries: Binaries, daemons: Daemons, *, archives: Sequence[Path]
) -> None:
    """Make the disk of ``machine`` with images, unless it exists. The kubeconfigs must exist.

    Each file has the same path as on this machine. The node's folder is on the disk itself (``home``); the other files
    are in the overlay above the system (``upper``).
    """
    if disk(machine).exists():
        return
    node.write_configs(layout, machine)
    write_atomically(machine.home / "kubelet.yaml", yaml.safe_dump(kubelet_config(layout, machine)).encode())
    write_atomically(machine.home / "containerd.toml", node.containerd_config(machine, systemd=True).encode())
    _unpack(machine, binaries, daemons, archives)
    content = machine.home / "disk"
    shutil.rmtree(content, ignore_errors=True)
    _write_content(content, layout, machine, binaries)
    part = disk(machine).with_suffix(".part")
    make_disk(part, content, DISK_SIZE)
    shutil.rmtree(content)
    part.rename(disk(machine))


def kubelet_config(layout: Layout, machine: NodeLayout) -> dict[str, object]:
    """Return the kubelet's configuration: in a virtual machine it has the root cgroup, and uses systemd."""
    return node.kubelet_config(layout, machine) | {"cgroupRoot": "/", "cgroupDriver": "systemd"}


def _unpack(machine: NodeLayout, binaries: Binaries, daemons: Daemons, archives: Sequence[Path]) -> None:
    """Unpack the images of ``machine``: its containerd runs here for that, minutes faster than in the machine."""
    daemon = msgspec.structs.replace(node.containerd(machine, binaries), netns=None)
    daemons.start(daemon)
    try:
        if not wait_until(lambda: node.answers(machine.containerd_socket), timeout_s=30):
            raise DevclusterError(f"{daemon.name} made no socket in 30 s:\n{daemons.tail(daemon.name)}")
        images.load_into(machine, list(archives), binaries)
    finally:
        daemons.stop(daemon.name)


def _write_content(content: Path, layout: Layout, machine: NodeLayout, binaries: Binaries) -> None:
    content.mkdir()
    (content / "home").mkdir()
    for name in ("cni", "cdi", "device-plugins", "containerd", "containerd.toml", "kubelet.yaml"):
        (machine.home / name).rename(content / "home" / name)
    daemons = programs(layout, machine, binaries)
    for path in [*(Path(each.argv[0]) for each in daemons), *read_by_programs(layout, machine, binaries)]:
        inside = content / "upper" / path.relative_to("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, inside)
    (content / "daemons").mkdir()
    for each in (*daemons, Daemon(name="serve", argv=SERVE)):
        (content / "daemons" / each.name).write_text(script(each))
    for name in ("boot", "serve"):
        shutil.copy(HERE / f"{name}.sh", content / name)
    (content / "settings").write_text(settings(layout, machine))
    etc = content / "upper" / "etc"
    (etc / "systemd" / "system").mkdir(parents=True, exist_ok=True)
    for unit in UNITS:
        shutil.copy(HERE / unit, etc / "systemd" / "system" / unit)
    (etc / "machine-id").write_text(f"{machine_id(machine)}\n")


def programs(layout: Layout, machine: NodeLayout, binaries: Binaries) -> list[Daemon]:
    """Return the programs of the node in the machine, the same as on other nodes."""
    return [
        node.containerd(machine, binaries),
        node.kubelet(layout, machine, binaries),
        node.kube_proxy(layout, machine, binaries),
    ]


def read_by_programs(layout: Layout, machine: NodeLayout, binaries: Binaries) -> list[Path]:
    """Return the files of this machine that the programs need in addition to those in the node's folder."""
    clients = (pki.node_client(machine.name), "kube-proxy")
    return [
        *(binaries.containerd / name for name in ("ctr", "containerd-shim-runc-v2")),
        *(pki.kubeconfig_path(layout, client) for client in clients),
        layout.home / "resolv.conf",
    ]


def script(daemon: Daemon) -> str:
    """Return a shell script that starts ``daemon``."""
    exports = [f"export {name}={shlex.quote(value)}\n" for name, value in daemon.env.items()]
    return f"{''.join(exports)}exec {shlex.join(daemon.argv)}\n"


def settings(layout: Layout, machine: NodeLayout) -> str:
    """Return the settings that ``boot.sh`` reads."""
    values = {"name": machine.name, "home": machine.home, "ip": machine.ip, "gateway": layout.host_ip}
    return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in values.items())


def machine_id(machine: NodeLayout) -> str:
    """Return a machine-id(5): the same after each boot, and different for each machine."""
    return hashlib.sha256(str(machine.home).encode()).hexdigest()[:32]


def run(machine: NodeLayout, command: str, *, stdin: Path | None = None, timeout_s: float = 300) -> str:
    """Run a shell line on ``machine``, with a file as standard input; return its stdout and stderr together.

    Raises:
        CommandFailed: the line failed.
        OSError: the machine does not answer.
    """
    with socket.create_connection((str(machine.ip), PORT), timeout=10) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(f"{command}\n".encode())
        if stdin is not None:
            with stdin.open("rb") as file:
                connection.sendfile(file)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    output, _, code = answer.decode(errors="replace").rpartition("\n")
    if not code.isdecimal():
        raise ConnectionError(f"{machine.name} was cut off while it ran `{command}`")
    if code != "0":
        raise failed([command], int(code), output)
    return output
