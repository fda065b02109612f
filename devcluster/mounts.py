"""Makes the cluster's folder a mount of its own, and unmounts everything at and below it."""

import re
from pathlib import Path

from devcluster.errors import DevclusterError
from devcluster.shell import run, succeeds
from devcluster.waiting import wait_until


def parse_mounts_below(mountinfo: str, folder: Path) -> list[Path]:
    """Return the mount points at or below ``folder`` in the order of mounting; octal escapes of proc(5) are decoded."""
    points = [
        re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line.split()[4]) for line in mountinfo.splitlines()
    ]
    return [Path(point) for point in points if Path(point).is_relative_to(folder)]


def below(folder: Path) -> list[Path]:
    """Return the current mount points at or below ``folder``."""
    return parse_mounts_below(Path("/proc/self/mountinfo").read_text(), folder)


def make_own(folder: Path) -> None:
    """Bind ``folder`` on itself, with shared propagation (kubelets need it) that ends at the folder. Idempotent."""
    if folder in below(folder):
        return
    run(["mount", "--bind", str(folder), str(folder)])
    # Private first: else it would stay in the parent's peer group, and every mount would appear twice.
    run(["mount", "--make-private", str(folder)])
    run(["mount", "--make-shared", str(folder)])


def remove_all(folder: Path) -> None:
    """Unmount everything at and below ``folder``; raise DevclusterError if a mount stays."""

    def gone() -> bool:
        for point in reversed(below(folder)):
            succeeds(["umount", "--lazy", str(point)])
        return not below(folder)

    if not wait_until(gone, timeout_s=15):
        raise DevclusterError(
            f"cannot unmount {', '.join(map(str, below(folder)))}; something else keeps mounting there"
        )
