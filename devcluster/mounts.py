"""The run folder as a mount of its own, so that one recursive unmount takes everything below with it."""

import re
from pathlib import Path

from devcluster.errors import DevclusterError
from devcluster.shell import run, succeeds
from devcluster.waiting import wait_until


def parse_mounts_below(mountinfo: str, folder: Path) -> list[Path]:
    """Mount points at or below ``folder`` in the order they were mounted; octal escapes of proc(5) undone."""
    points = [
        re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line.split()[4]) for line in mountinfo.splitlines()
    ]
    return [Path(point) for point in points if Path(point).is_relative_to(folder)]


def below(folder: Path) -> list[Path]:
    """Current mounts at or below ``folder``."""
    return parse_mounts_below(Path("/proc/self/mountinfo").read_text(), folder)


def make_own(folder: Path) -> None:
    """Bind ``folder`` on itself, with shared propagation (kubelets need it) that ends at the folder. Idempotent."""
    if folder in below(folder):
        return
    run(["mount", "--bind", str(folder), str(folder)])
    # Private first: else it would stay in the peer group of the parent and every mount would show up twice.
    run(["mount", "--make-private", str(folder)])
    run(["mount", "--make-shared", str(folder)])


def remove_all(folder: Path) -> None:
    """Unmount everything at and below ``folder``; raises when something stays."""

    def gone() -> bool:
        for point in reversed(below(folder)):
            succeeds(["umount", "--lazy", str(point)])
        return not below(folder)

    if not wait_until(gone, timeout_s=15):
        raise DevclusterError(
            f"cannot unmount {', '.join(map(str, below(folder)))}; something else keeps mounting there"
        )
