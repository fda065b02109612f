"""Makes the system that all virtual machines boot, once per version: kernel, initrd and a read-only disk."""

import hashlib
import lzma
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from devcluster.errors import DevclusterError
from devcluster.shell import run
from devcluster.state import locked

HERE = Path(__file__).parent
SUITE = "trixie"
PACKAGES = (
    "busybox-static",
    "ca-certificates",
    "conntrack",
    "containernetworking-plugins",
    "dbus",
    "iproute2",
    "iptables",
    "kmod",
    "mount",
    "procps",
    "runc",
    "socat",
    "systemd",
    "util-linux",
)
LEFT_OUT = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*", "/usr/share/info/*")
DISK_SIZE = "2G"
# Modules that are not built into the kernel, and that are needed before it can read modules from the disk.
MODULES = ("drivers/block/virtio_blk", "fs/overlayfs/overlay")
SCRIPT, FOLDER = 0o100755, 0o040755


class Base(msgspec.Struct, frozen=True):
    """The folder with the system of virtual machines."""

    folder: Path

    @property
    def kernel(self) -> Path:
        """The path of the kernel."""
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """The path of the initrd, which mounts the disks."""
        return self.folder / "initrd"

    @property
    def disk(self) -> Path:
        """The path of the disk with the system, ext4."""
        return self.folder / "system.img"


def find(cache: Path) -> Base:
    """Return the system of this version, which may not be made yet."""
    parts = [SUITE, DISK_SIZE, *PACKAGES, *((HERE / name).read_text() for name in ("kernel.sh", "init.sh"))]
    return Base(cache / "vm" / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12])


def ensure(cache: Path, *, progress: Callable[[str], None]) -> Base:
    """Return the system; make it from Debian packages if it is missing, and delete those of older versions."""
    base = find(cache)
    with locked(cache / "vm.lock"):
        if not base.folder.exists():
            progress(f"making the disk of virtual machines from Debian {SUITE}")
            # Running machines keep the files that they have open.
            shutil.rmtree(base.folder.parent, ignore_errors=True)
            _make(base)
    return base


def _make(base: Base) -> None:
    part = base.folder.with_suffix(f".{os.getpid()}")
    root = part / "root"
    root.mkdir(parents=True)
    try:
        _bootstrap(root)
        (image,) = (root / "boot").glob("vmlinuz-*")
        shutil.copy(image, part / "vmlinuz")
        (part / "initrd").write_bytes(_initrd(root))
        shutil.rmtree(root / "boot")
        make_disk(part / "system.img", root, DISK_SIZE)
        shutil.rmtree(root)
        part.rename(base.folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _bootstrap(root: Path) -> None:
    run(
        [
            "mmdebstrap",
            "--variant=minbase",
            f"--include={','.join(PACKAGES)}",
            # Mirrors that are snapshots serve Release files past their date.
            '--aptopt=Acquire::Check-Valid-Until "false"',
            *(f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT),
            f'--customize-hook=sh {HERE}/kernel.sh "$1"',
            SUITE,
            str(root),
        ],
        timeout_s=1800,
    )


def make_disk(disk: Path, folder: Path, size: str) -> None:
    """Make an ext4 file system with the content of ``folder``, and a journal, which repairs it after a power cut."""
    run(["mke2fs", "-q", "-t", "ext4", "-d", str(folder), str(disk), size], timeout_s=600)


def _initrd(root: Path) -> bytes:
    (kernel,) = (root / "usr/lib/modules").iterdir()
    files = {"bin/busybox": (root / "usr/bin/busybox").read_bytes(), "init": (HERE / "init.sh").read_bytes()}
    for module in MODULES:
        path = kernel / "kernel" / f"{module}.ko"
        packed = path.with_suffix(".ko.xz")
        if not packed.exists():
            raise DevclusterError(f"the kernel {kernel.name} has no module {packed.relative_to(kernel)}")
        files[path.name] = lzma.decompress(packed.read_bytes())
    return cpio(files)


def cpio(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of programs for an initrd: format newc of cpio(5), folders first."""
    folders = sorted({str(parent) for name in files for parent in Path(name).parents if parent.name})
    entries = [(name, FOLDER, b"") for name in folders] + [(name, SCRIPT, data) for name, data in files.items()]
    return b"".join(_entry(number, *entry) for number, entry in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1))


def _entry(number: int, name: str, mode: int, data: bytes) -> bytes:
    encoded = name.encode() + b"\0"
    # inode, mode, uid, gid, links, time, size, two devices of two numbers, length of the name, checksum
    numbers = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
    head = b"070701" + b"".join(b"%08X" % each for each in numbers) + encoded
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)
