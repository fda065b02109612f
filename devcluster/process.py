"""Starts the long-lived processes of a cluster and records them, so that a later command finds them.

A process is known by its pid and its start time, because another process may get the same pid. All processes have the
cluster's folder in their environment and are in the cluster's cgroup, so none can be lost.
"""

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from devcluster.errors import DevclusterError
from devcluster.state import write_atomically
from devcluster.waiting import wait_until

RUN_MARK = "SUNKPY_DEVCLUSTER_RUN"


# The mount that contains a bind's target becomes private first, so only this process sees the bind. All other mounts
# stay shared, so the volumes that a kubelet mounts for its pods still reach containerd.
_BIND = """while [ "$1" != -- ]; do
  mount --make-private "$(stat --format=%m "$1")" && mount --bind "$2" "$1" || exit
  shift 2
done
shift
exec "$@"
"""


class Daemon(msgspec.Struct, frozen=True):
    """A program to keep running, in the network namespace bound to ``netns`` if that is set.

    ``binds``: folders of this machine -> the folders that the program sees in their place.
    """

    name: str
    argv: Sequence[str]
    netns: Path | None = None
    binds: Mapping[Path, Path] = {}
    env: Mapping[str, str] = {}


class Record(msgspec.Struct, frozen=True):
    """The record of a started process. ``start_ticks``: its start time, field 22 of /proc/pid/stat."""

    pid: int
    start_ticks: int


def parse_stat(stat: str) -> tuple[str, int]:
    """Return state letter and start time in a /proc/pid/stat line, proc_pid_stat(5). The command in it may contain any
    character.
    """
    fields = stat[stat.rindex(")") + 1 :].split()
    return fields[0], int(fields[19])


def start_ticks(pid: int) -> int | None:
    """Return the start time of a living process; None if it is gone or a zombie."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        state, ticks = parse_stat(Path(f"/proc/{pid}/stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else ticks


def find_running(home: Path, argv: Sequence[str]) -> int | None:
    """Return the pid of a process of the cluster in ``home`` with exactly this command line; None if there is none."""
    wanted = b"\0".join(map(os.fsencode, argv)) + b"\0"
    for pid in marked_pids(home):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{pid}/cmdline").read_bytes() == wanted and start_ticks(pid) is not None:
                return pid
    return None


def marked_pids(home: Path) -> list[int]:
    """Return every process with the mark of the cluster in ``home`` in its environment."""
    mark = f"{RUN_MARK}={home}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


class Daemons:
    """The processes of one cluster. ``join_file``: the cgroup.procs that every process joins."""

    def __init__(self, home: Path, join_file: Path) -> None:
        self.home = home
        self.records = home / "proc"
        self.logs = home / "log"
        self.join_file = join_file

    def pid(self, name: str) -> int | None:
        """Return the pid of process ``name``; None if it does not run."""
        try:
            record = msgspec.json.decode((self.records / name).read_bytes(), type=Record)
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return record.pid if start_ticks(record.pid) == record.start_ticks else None

    def names(self) -> list[str]:
        """Return the names of all processes that were started and not stopped since."""
        return sorted(path.name for path in self.records.glob("[!.]*"))

    def start(self, daemon: Daemon) -> bool:
        """Start ``daemon`` unless it runs; return whether it was started."""
        if self.pid(daemon.name) is not None:
            return False
        self.records.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        # A command that was killed between start and record leaves a process without a record: it is adopted.
        orphan = find_running(self.home, daemon.argv)
        pid = self._spawn(daemon) if orphan is None else orphan
        record = Record(pid=pid, start_ticks=start_ticks(pid) or 0)
        write_atomically(self.records / daemon.name, msgspec.json.encode(record))
        return orphan is None

    def _spawn(self, daemon: Daemon) -> int:
        log = os.open(self.logs / f"{daemon.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        null = os.open(os.devnull, os.O_RDONLY)
        # nsenter, not `ip netns exec`: the latter remounts /sys and the kubelet loses its cgroups.
        enter = ["nsenter", f"--net={daemon.netns}"] if daemon.netns else []
        if daemon.binds:
            pairs = [str(path) for bind in daemon.binds.items() for path in bind]
            enter += ["unshare", "--mount", "--propagation", "unchanged", "/bin/sh", "-c", _BIND, "sh", *pairs, "--"]
        join = ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.join_file)]
        try:
            return os.posix_spawn(
                "/bin/sh",
                [*join, *enter, *daemon.argv],
                {**os.environ, **daemon.env, RUN_MARK: str(self.home)},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, null, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,
            )
        finally:
            os.close(log)
            os.close(null)

    def kill(self, name: str, sig: signal.Signals) -> bool:
        """Send ``sig`` to process ``name``; False if it does not run."""
        pid = self.pid(name)
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sig)
        return True

    def stop(self, name: str, *, sig: signal.Signals = signal.SIGTERM, timeout_s: float = 10) -> None:
        """End process ``name`` by ``sig``, after ``timeout_s`` by SIGKILL, and delete its record."""
        self.kill(name, sig)
        if not wait_until(lambda: self.pid(name) is None, timeout_s=timeout_s):
            self.kill(name, signal.SIGKILL)
            if not wait_until(lambda: self.pid(name) is None, timeout_s=10):
                raise DevclusterError(
                    f"{name} (pid {self.pid(name)}) survives SIGKILL; is a disk or NFS mount hanging?"
                )
        (self.records / name).unlink(missing_ok=True)

    def tail(self, name: str, lines: int = 12) -> str:
        """Return the end of the log of process ``name``, for an error message."""
        try:
            text = (self.logs / f"{name}.log").read_text(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def require(self, name: str) -> None:
        """Raise DevclusterError with the end of its log if process ``name`` does not run."""
        if self.pid(name) is None:
            raise DevclusterError(
                f"{name} ended right after its start; the end of {self.logs / name}.log:\n{self.tail(name)}"
            )
