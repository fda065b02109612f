"""How long a pod may take to end once its job has lost the node: minutes, whatever it asks for.

A grace period is what whoever made the pod wished for, and may be a day. Until the pod is gone Slurm starts nothing on
the node, and an epilog that waits in vain drains it. So a pod whose job is over is given a bounded one. It can only be
made shorter, also for a pod that goes already (Kubernetes, `rest.BeforeDelete`); the kubelet counts the shorter one
from when it hears of it.
"""

from __future__ import annotations

import math
from datetime import datetime

import msgspec

from sunkpy.core.gang.actions import Evict, Shorten, Warn
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.snapshot import grace_s
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.times import parse_rfc3339


def longest_grace_s(gang: Gang, policy: Policy) -> int:
    """What pods of a gang are given: by their namespace, else by their partition; of several, the least."""
    by_partition = policy.partition_grace_s
    partitions = (gang.options.partition or policy.default_partition).split(",")
    return gang.longest_grace_s or min(by_partition.get(name, policy.longest_grace_s) for name in partitions)


def bounded(evict: Evict, longest_s: int) -> Evict | Shorten:
    """The eviction with at most that grace period, also if somebody else has deleted the pod with a longer one."""
    pod, given_s = evict.pod, evict.pod.metadata.deletion_grace_period_seconds
    if pod.is_deleting and given_s is not None and given_s > longest_s:
        return Shorten(pod=pod, grace_s=longest_s)
    return msgspec.structs.replace(evict, grace_s=_grace_to_give(pod, longest_s))


def at_most(longest_s: int, pod: Pod, *, now: datetime) -> int:
    """That period, or the rest that a pod which is being deleted still has: with a longer period the kubelet would
    start again.

    A pod whose time is up and that is still there has a kubelet that learned of the deletion late. `now` is wall-clock
    time: when the pod has to be gone, only the apiserver has noted, and a new leader knows no more.
    """
    until = pod.metadata.deletion_timestamp
    left_s = math.ceil((parse_rfc3339(until) - now).total_seconds()) if until is not None else 0
    return min(longest_s, left_s) if left_s > 0 else longest_s


def _grace_to_give(pod: Pod, longest_s: int) -> int | None:
    """None: what it asks for. With a grace of 0 the apiserver would forget it before the kubelet has heard of it."""
    asked_s = grace_s(pod)
    if asked_s > longest_s:
        return longest_s
    return 1 if asked_s == 0 else None


def warn_of_grace(pod: Pod, longest_s: int) -> Warn | None:
    """Before the pod starts: it will not be given what it asks for."""
    if grace_s(pod) <= longest_s:
        return None
    note = (
        f"its grace period is {grace_s(pod):.0f} s: when its job has lost the node it is given {longest_s} s "
        "(longestGraceSeconds of the Slurm cluster, partition or namespace), then its containers are killed"
    )
    return Warn(pod=pod, reason="GraceTooLong", note=note)
