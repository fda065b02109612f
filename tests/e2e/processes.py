"""The processes of a pod's containers, as the machine that runs the nodes of a devcluster sees them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from demo.stack import OPERATOR_NAMESPACE, Stack
from devcluster.waiting import wait
from sunkpy.core.model.objects import Pod

PROC = Path("/proc")


def pids_of(pod: Pod, *, program: str) -> list[int]:
    """Process ids in the cgroups of a pod whose command line has `program` as (the end of) one of its first words."""
    uids = (pod.uid, pod.uid.replace("-", "_"))
    return [pid for pid in _all_pids() if _is_in(pid, uids) and _runs(pid, program)]


def _all_pids() -> Iterator[int]:
    return (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())


def _is_in(pid: int, uids: tuple[str, ...]) -> bool:
    try:
        cgroups = (PROC / str(pid) / "cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(uid in cgroups for uid in uids)


def _runs(pid: int, program: str) -> bool:
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(word == program or word.endswith("/" + program) for word in words[:4])


def pods_of(stack: Stack, part: str) -> list[Pod]:
    """All pods of one part, such as operator, syncer or slurmctld."""
    namespace = OPERATOR_NAMESPACE if part == "operator" else stack.namespace
    return [pod for pod in stack.kubectl.list(Pod, "pods", "-n", namespace) if f"-{part}-" in f"-{pod.name}-"]


def kill(stack: Stack, part: str) -> list[str]:
    """Kill -9 every process of a part, all replicas; the names of the pods. Waits until the kubelet has seen it."""
    pods = pods_of(stack, part)
    assert pods, f"there is no pod of {part}"
    restarts = {pod.name: restarts_of(pod) for pod in pods}
    for pod in pods:
        pids = pids_of(pod, program=part)
        if not pids:
            pytest.skip(f"no process of {pod.name} on this machine: the cluster is elsewhere")
        kill_all(pids)

    def restarted() -> bool:
        return all(restarts_of(pod) > restarts.get(pod.name, -1) and _is_running(pod) for pod in pods_of(stack, part))

    wait(restarted, timeout_s=60, what=f"restart of {part}")
    return sorted(restarts)


def kill_program(pods: Iterable[Pod], program: str) -> list[int]:
    """Kill -9 the processes of a program in these pods; their ids."""
    pids = [pid for pod in pods for pid in pids_of(pod, program=program)]
    kill_all(pids)
    return pids


def kill_all(pids: Iterable[int]) -> None:
    """Kill -9 each. The end of process 1 of a container is the end of all others there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def restarts_of(pod: Pod) -> int:
    """How often its containers were started again."""
    return sum(status.restart_count for status in pod.status.container_statuses)


def _is_running(pod: Pod) -> bool:
    return all(status.state.running is not None for status in pod.status.container_statuses)
