"""The independent observer: which processes really run on each node, several times a second, and what Slurm reports.

Processes are found where the kernel keeps them, in the cgroups of the node's pods (`<node>/kubepods/…/pod<uid>/…`). The
variables `CHAOS_POD` or `CHAOS_JOB` in their environment say to which pod or job of the load they belong. The script of
a placeholder job, a Prolog and an Epilog have neither. So neither apiserver nor slurmctld is asked who runs where.

A scan takes some time: if it finds two owners on one node, the node is scanned again, and only processes that both
scans found count. All of these ran between the two scans.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from demo import slurm_text
from demo.stack import Stack
from devcluster import Cluster, cgroups
from devcluster.errors import DevclusterError
from devcluster.shell import CommandFailed
from tests.bench.chaos.record import Owner, Running, Sample, SlurmLook

SAMPLE_EVERY_S = 0.25
LOOK_EVERY_S = 2.0
PROC = Path("/proc")
_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f_-]{27})")
_KEPT_OF_JOB = ("JobName", "JobState", "Reason", "Comment", "NodeList", "Partition", "Restarts", "ExitCode", "UserId")
_KEPT_OF_NODE = ("State", "Reason", "CPUAlloc")


def scan(nodes: Mapping[str, Path], *, now: Callable[[], float] = time.time) -> Sample:
    """Return a sample of all nodes; `nodes` maps each Kubernetes node to its cgroup folder."""
    found: list[Running] = []
    at_s = now()
    for node, folder in nodes.items():
        running = list(_scan_node(node, folder))
        if len({each.owner for each in running}) > 1:
            at_s = now()
            running = seen_twice(running, list(_scan_node(node, folder)))
        found += running
    return Sample(at_s=at_s, running=tuple(found))


def seen_twice(first: Sequence[Running], second: Sequence[Running]) -> list[Running]:
    later = {(each.owner, each.pod_uid): set(each.pids) for each in second}
    both = []
    for each in first:
        pids = tuple(pid for pid in each.pids if pid in later.get((each.owner, each.pod_uid), ()))
        if pids:
            both.append(Running(node=each.node, owner=each.owner, pod_uid=each.pod_uid, pids=pids))
    return both


def processes(folder: Path) -> Iterator[tuple[str, int, bytes]]:
    """Yield the pod's uid, the pid and the environment of each process in the pods of a node."""
    # `os.walk` ignores folders that vanish meanwhile: pods end all the time.
    for cgroup, _, _ in os.walk(folder):
        uid = _POD.search(cgroup)
        if uid is None:
            continue
        for pid in _read(Path(cgroup, "cgroup.procs")).split():
            yield uid[1].replace("_", "-"), int(pid), _read(PROC / pid.decode() / "environ")


def _scan_node(node: str, folder: Path) -> Iterator[Running]:
    pids: dict[tuple[Owner, str], list[int]] = {}
    for pod_uid, pid, environ in processes(folder):
        owner = owner_of(environ)
        if owner is not None:
            pids.setdefault((owner, pod_uid), []).append(pid)
    for (owner, pod_uid), own in pids.items():
        yield Running(node=node, owner=owner, pod_uid=pod_uid, pids=tuple(own))


def owner_of(environ: bytes) -> Owner | None:
    """Return the pod or job of a process, by its environment; None for a zombie, or a process outside the load."""
    if b"CHAOS_" not in environ:
        return None
    values = variables(environ)
    if "CHAOS_POD" in values:
        return Owner("pod", values["CHAOS_POD"])
    if "CHAOS_JOB" in values:
        return Owner("job", values["CHAOS_JOB"], int(values.get("SLURM_RESTART_COUNT", "0")))
    return None


def variables(environ: bytes) -> dict[str, str]:
    """Return the environment variables in the text of /proc/<pid>/environ."""
    return dict(entry.decode(errors="replace").split("=", 1) for entry in environ.split(b"\0") if b"=" in entry)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


def node_folders(cluster: Cluster) -> dict[str, Path]:
    """Return the cgroup folder of each node, in the hierarchy in which processes are found."""
    mount = cgroups.tracking(cgroups.hierarchies()).mount
    return {node.name: mount / node.cgroup for node in cluster.nodes()}


def look(stack: Stack) -> SlurmLook:
    """Return the nodes and jobs that slurmctld reports to its administrator.

    Raises:
        CommandFailed: slurmctld or its pod does not answer.
    """
    script = "scontrol -o show node -d && scontrol -o show job -d"
    asked_s = time.time()
    lines = stack.admin("bash", "-c", script, timeout_s=20).splitlines()
    at_s = time.time()
    parsed = [slurm_text.parse_oneliner(line) for line in lines if line.startswith(("NodeName=", "JobId="))]
    return SlurmLook(
        at_s=at_s,
        took_s=at_s - asked_s,
        nodes={one["NodeName"]: _kept(one, _KEPT_OF_NODE) for one in parsed if "NodeName" in one},
        jobs={int(one["JobId"].split()[0]): _kept(one, _KEPT_OF_JOB) for one in parsed if "JobId" in one},
    )


def _kept(record: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    return {key: record[key] for key in keys if key in record}


class Repeated:
    """Repeats each step in a thread of its own, from `start` to `stop`.

    If a step fails, its thread ends, and `stop` raises the error.
    """

    def __init__(self, steps: Mapping[Callable[[], None], float]) -> None:
        self._broken: list[Exception] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._repeat, args=step, daemon=True) for step in steps.items()]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop all threads, and raise the first error of a step."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._broken:
            raise self._broken[0]

    def _repeat(self, step: Callable[[], None], every_s: float) -> None:
        due_s = time.monotonic()
        try:
            while not self._stop.wait(max(due_s - time.monotonic(), 0.0)):
                step()
                due_s = max(due_s + every_s, time.monotonic())
        except Exception as error:  # noqa: BLE001  raised by `stop`, in the thread that waits for it
            self._broken.append(error)


class Watcher:
    """Takes samples of processes and looks at Slurm, from `start` to `stop`. `blind`: how many looks failed."""

    def __init__(self, stack: Stack, cluster: Cluster) -> None:
        self.samples: list[Sample] = []
        self.looks: list[SlurmLook] = []
        self.blind = 0
        self._stack = stack
        self._folders = node_folders(cluster)
        self._repeated = Repeated({self._sample: SAMPLE_EVERY_S, self._look: LOOK_EVERY_S})

    def start(self) -> None:
        self._repeated.start()

    def stop(self) -> None:
        """Stop, then take a last look at Slurm: the previous one may be older than what the caller has seen."""
        try:
            self._repeated.stop()
        finally:
            self._look()

    def _sample(self) -> None:
        self.samples.append(scan(self._folders))

    def _look(self) -> None:
        try:
            self.looks.append(look(self._stack))
        except (CommandFailed, DevclusterError):  # the apiserver, slurmctld or its node is away: that is the point
            self.blind += 1
