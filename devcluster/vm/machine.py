"""Runs virtual machines as processes of a cluster: QEMU without acceleration, with a tap device on the bridge."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from devcluster import node, packages
from devcluster.api import Api
from devcluster.binaries import Binaries
from devcluster.errors import DevclusterError
from devcluster.images import read_identity
from devcluster.layout import Layout, NodeLayout
from devcluster.network import route_pods
from devcluster.process import Daemon, Daemons
from devcluster.shell import run, succeeds
from devcluster.vm import base, guest
from devcluster.waiting import wait_until

PROGRAM = "machine"
CPUS = "4,sockets=2,cores=1,threads=2"
# By default QEMU emulates an AMD, and warns that its cores have no threads.
CPU = "max,vendor=GenuineIntel"
MEMORY_MIB = 3072
SYSTEMD = f"systemd.unit={guest.UNIT} systemd.show_status=false"
# An emulated machine has a tenth of this machine's speed, or less while other programs run here.
BOOT_TIMEOUT_S = 1800

# Program -> Debian package that has it.
PACKAGES = {"qemu-system-x86_64": "qemu-system-x86", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs"}


def qemu(layout: Layout, machine: NodeLayout, system: base.Base) -> Daemon:
    """Return the QEMU process of a machine. Its disks use the page cache, which survives if QEMU is killed."""
    drive = "if=virtio,format=raw,cache=unsafe"
    mac = f"52:54:00:00:{layout.slot:02x}:{machine.number:02x}"
    return Daemon(
        name=machine.daemon(PROGRAM),
        argv=[
            "qemu-system-x86_64",
            *("-accel", "tcg,thread=multi,tb-size=512", "-cpu", CPU, "-M", "pc,usb=off"),
            *("-smp", CPUS, "-m", str(MEMORY_MIB), "-nodefaults", "-no-reboot", "-display", "none"),
            *("-kernel", str(system.kernel), "-initrd", str(system.initrd)),
            *("-append", f"console=ttyS0 quiet panic=-1 nokaslr mitigations=off no_timer_check {SYSTEMD}"),
            *("-serial", f"file:{layout.logs}/{machine.name}-console.log"),
            *("-drive", f"file={system.disk},{drive},readonly=on", "-drive", f"file={guest.disk(machine)},{drive}"),
            *("-netdev", f"tap,id=n0,ifname={machine.veth},script=no,downscript=no"),
            *("-device", f"virtio-net-pci,netdev=n0,romfile=,mac={mac}", "-device", "virtio-rng-pci"),
        ],
    )


def prepare(cache: Path, *, progress: Callable[[str], None]) -> None:
    """Install the packages and make the system that the virtual machines of all clusters need."""
    packages.ensure(PACKAGES, progress=progress)
    base.ensure(cache, progress=progress)


class Machines(msgspec.Struct, frozen=True):
    """The virtual machines of one cluster."""

    layout: Layout
    binaries: Binaries
    daemons: Daemons

    def start(self, machine: NodeLayout, *, archives: Sequence[Path] = ()) -> str | None:
        """Switch ``machine`` on, unless it runs; it becomes a node by itself. A new disk has the images of
        ``archives``.

        The kubeconfigs must exist. Return the last heartbeat of its node, for `await_ready`; None if it has none.
        """
        is_off = self.daemons.pid(machine.daemon(PROGRAM)) is None
        old = node.ready_heartbeat(Api(self.layout.kubeconfig), machine.name) if is_off else None
        guest.make(self.layout, machine, self.binaries, self.daemons, archives=archives)
        if not succeeds(["ip", "link", "show", machine.veth]):
            run(["ip", "tuntap", "add", "dev", machine.veth, "mode", "tap"])
        run(["ip", "link", "set", machine.veth, "master", self.layout.bridge, "up"])
        route_pods(self.layout, machine)
        self.daemons.start(qemu(self.layout, machine, base.find(self.binaries.cache)))
        return old

    def await_ready(self, machine: NodeLayout, *, old: str | None) -> None:
        """Wait until the node has another heartbeat than ``old``: a dead node still counts as Ready for a while."""
        api = Api(self.layout.kubeconfig)

        def ready() -> bool:
            self.daemons.require(machine.daemon(PROGRAM))
            return node.ready_heartbeat(api, machine.name) not in (None, old)

        if not wait_until(ready, timeout_s=BOOT_TIMEOUT_S, every_s=0.5):
            raise DevclusterError(
                f"{machine.name} is not Ready after {BOOT_TIMEOUT_S} s; log/{machine.name}-console.log has its "
                f"kernel's messages, and its programs say:\n{_last_words(machine)}"
            )


def _last_words(machine: NodeLayout) -> str:
    with contextlib.suppress(OSError, DevclusterError):
        return guest.run(machine, "tail -q -n 5 /disk/log/*")
    return "(it does not answer)"


def load_into(machine: NodeLayout, archives: list[Path], binaries: Binaries) -> list[str]:
    """Import the images that ``machine`` does not have yet; return the imported tags."""
    ctr = f"{binaries.containerd}/ctr -a {machine.containerd_socket} -n k8s.io images"

    def listening() -> bool:
        with contextlib.suppress(OSError, DevclusterError):
            return guest.run(machine, f"{ctr} ls -q", timeout_s=60) is not None
        return False

    if not wait_until(listening, timeout_s=BOOT_TIMEOUT_S, every_s=1):
        raise DevclusterError(f"containerd of {machine.name} does not answer after {BOOT_TIMEOUT_S} s")
    present = set(guest.run(machine, f"{ctr} ls -q").split())
    imported: list[str] = []
    for archive in archives:
        tags = read_identity(archive)
        if not set(tags) <= present:
            guest.run(machine, f"{ctr} import -", stdin=archive, timeout_s=1800)
            imported.extend(tags)
    return imported
