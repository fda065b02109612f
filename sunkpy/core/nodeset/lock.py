"""The lock: a taint that keeps pods of other schedulers off a Node while Slurm jobs run there.

kube-scheduler knows no Slurm job: it would put its pods onto cpus and devices that Slurm has given to a job. The taint
only keeps new pods off (NoSchedule). NoExecute would also evict workload pods, because nobody can add a toleration to
them in time. The taint's value marks it as sunkpy's; other taints with the same key are left alone.
"""

from __future__ import annotations

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod, Taint
from sunkpy.core.model.slurmd import is_idle


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """How Nodes are locked. `key` is the key of the taint; if it is empty, no Node is locked. `is_dry_run`: set no
    taint, but write an annotation that says what the lock would do.
    """

    key: str = ""
    is_dry_run: bool = False


UNLOCKED = Lock()


def with_lock(
    taints: tuple[Taint, ...], node: Node, pod: Pod | None, lock: Lock, *, has_jobs: bool
) -> tuple[Taint, ...]:
    """Return the Node's taints, with the lock (a taint that keeps other schedulers' pods away) if the Node should be
    locked now, else without it.

    `has_jobs`: pods of Slurm jobs are on the Node (`jobs_of_pods`).
    """
    others = tuple(taint for taint in taints if taint.value != names.LOCKED_FOR_JOBS)
    ours = Taint(key=lock.key, value=names.LOCKED_FOR_JOBS, effect="NoSchedule")
    is_taken = any((taint.key, taint.effect) == (ours.key, ours.effect) for taint in others)
    is_wanted = not lock.is_dry_run and not is_taken and _is_locked(node, pod, lock, has_jobs)
    return (*others, ours) if is_wanted else others


def dry_run_note(node: Node, pod: Pod | None, lock: Lock, *, has_jobs: bool) -> str | None:
    """Return the taint that the lock would set on the Node now, if this is a dry run; None if it would set none."""
    return f"{lock.key}:NoSchedule" if lock.is_dry_run and _is_locked(node, pod, lock, has_jobs) else None


def is_sure(pod: Pod | None) -> bool:
    """True if the slurmd pod says that jobs run. False if it says that none run, or says nothing: during a rolling
    update, and until its Slurm node is back.
    """
    running = pod.condition(names.CONDITION_RUNNING) if pod is not None else None
    return running is not None and running.status == "True"


def _is_locked(node: Node, pod: Pod | None, lock: Lock, has_jobs: bool) -> bool:
    """True if the Node should be locked: the slurmd pod says that jobs run. If the pod does not say, or pods of jobs
    are there, the Node stays locked or unlocked as it is. False without a key.
    """
    if not lock.key or is_sure(pod):
        return bool(lock.key)
    if not has_jobs and (pod is None or is_idle(pod)):
        return False
    was_noted = names.ANNOTATION_WOULD_LOCK in node.annotations
    return was_noted or any(taint.value == names.LOCKED_FOR_JOBS for taint in node.spec.taints)
