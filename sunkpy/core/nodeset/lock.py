"""The lock: a taint that keeps pods of other schedulers off a Node while Slurm jobs run there.

kube-scheduler knows no Slurm job: it would put its pods onto cpus and devices that Slurm has given to a job.
The taint only keeps new pods off (NoSchedule). NoExecute would evict workload pods as well, to which nobody gives a
toleration after they were made. Its value says that it is ours; whatever else has the same key is left alone.
"""

from __future__ import annotations

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod, Taint
from sunkpy.core.model.slurmd import is_idle


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """`key` of the taint; empty: Nodes are not locked. `is_dry_run`: an annotation says what would be done."""

    key: str = ""
    is_dry_run: bool = False


UNLOCKED = Lock()


def with_lock(
    taints: tuple[Taint, ...], node: Node, pod: Pod | None, lock: Lock, *, has_jobs: bool
) -> tuple[Taint, ...]:
    """These taints of a Node, with or without the lock. `has_jobs`: pods of Slurm jobs are on it (`jobs_of_pods`)."""
    others = tuple(taint for taint in taints if taint.value != names.LOCKED_FOR_JOBS)
    ours = Taint(key=lock.key, value=names.LOCKED_FOR_JOBS, effect="NoSchedule")
    is_taken = any((taint.key, taint.effect) == (ours.key, ours.effect) for taint in others)
    is_wanted = not lock.is_dry_run and not is_taken and _is_locked(node, pod, lock, has_jobs)
    return (*others, ours) if is_wanted else others


def dry_run_note(node: Node, pod: Pod | None, lock: Lock, *, has_jobs: bool) -> str | None:
    """What the lock would do to the Node now; None if it would do nothing."""
    return f"{lock.key}:NoSchedule" if lock.is_dry_run and _is_locked(node, pod, lock, has_jobs) else None


def is_sure(pod: Pod | None) -> bool:
    """The slurmd pod says that jobs run. It cannot while a roll replaces it, nor before its Slurm node is back."""
    running = pod.condition(names.CONDITION_RUNNING) if pod is not None else None
    return running is not None and running.status == "True"


def _is_locked(node: Node, pod: Pod | None, lock: Lock, has_jobs: bool) -> bool:
    """By the slurmd pod's condition. While nobody can tell it stays as it is, and so it does while jobs of pods run."""
    if not lock.key or is_sure(pod):
        return bool(lock.key)
    if not has_jobs and (pod is None or is_idle(pod)):
        return False
    was_noted = names.ANNOTATION_WOULD_LOCK in node.annotations
    return was_noted or any(taint.value == names.LOCKED_FOR_JOBS for taint in node.spec.taints)
