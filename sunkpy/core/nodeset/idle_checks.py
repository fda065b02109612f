"""Decides which idle machines are checked. A check is a Slurm job that every other job preempts.

All state is in Slurm and on the slurmd pod. A running check is a job in the partition of checks whose comment names the
pod; its result is written on that pod. So when another syncer becomes leader, it can continue, and starts no check
twice. A check that was preempted counts as not made, unless it has failed once already, and is not tried again soon.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.figures.nodes import PartitionRow
from sunkpy.core.health.idle_check import (
    FAILED,
    FAILED_ONCE,
    NOT_MADE,
    PASSED_AGAIN,
    IdleCheck,
    Outcome,
    check_script,
    failed_check,
    read_idle_check,
    time_limit_min,
)
from sunkpy.core.health.verification import verify_s
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.removal_token import token_of
from sunkpy.core.model.states import JobId, SlurmJob, SlurmNode, is_job_ended, is_job_pending
from sunkpy.core.model.times import parse_rfc3339, rfc3339

AGAIN_AFTER: Final = timedelta(hours=1)
"""After this time, or after the rule's own interval if that is shorter, a check that was not made is tried again."""
_MOST_A_PASS: Final = 20
_MOST_AT_ONCE: Final = 50
"""The most checks that run at once, in all NodeSets together. Each pass reads the job of every check, and has to end
well before a failed check leaves its node.
"""
_FAILURES: Final = 2
_COMMENT: Final = "sunkpy check of "
_CLOSING: Final = (names.ANNOTATION_CORDON, names.ANNOTATION_HEALTH_DRAIN)
_BY_OTHERS: Final = frozenset({"PREEMPTED", "CANCELLED", "BOOT_FAIL"})
_WORDS: Final = (FAILED, FAILED_ONCE, PASSED_AGAIN, NOT_MADE)
_MAY_START: Final = frozenset({"", "None", "Priority", "Resources"})
"""Reasons of pending jobs that start as soon as nodes are free (job_state_reason.c)."""


class IdleRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """When and how idle machines of a NodeSet are checked. `seconds`: how long after its last check a machine is
    checked again. `max_percent`: how many of the machines are checked at once (at least one).

    `qos` is the QoS of the check's job, if it needs one.
    """

    seconds: int
    max_percent: int = 10
    qos: str = ""

    def most(self, nodes: int) -> int:
        """Return how many checks may run at once in a NodeSet with this number of nodes."""
        return max(1, nodes * self.max_percent // 100)

    def most_failures(self, nodes: int) -> int:
        """Return how many failed checks a NodeSet with this number of nodes may have before no more checks begin. More
        failures mean that something shared has failed, such as a file server.
        """
        return max(_FAILURES, nodes * self.max_percent // 100)


class IdleView(msgspec.Struct, frozen=True, kw_only=True):
    """All that `plan_idle_checks` reads. `pods`: Slurm node → its slurmd pod. `rules`: NodeSet → its rule, for the
    NodeSets in which checks may begin now.

    `are_all_read`: no job is missing from `jobs`. `partition` is the partition of the checks.
    """

    partition: str
    rules: Mapping[str, IdleRule]
    pods: Mapping[str, Pod]
    nodes: Mapping[str, SlurmNode]
    jobs: Sequence[JobRow]
    are_all_read: bool
    partitions: Sequence[PartitionRow]
    now: datetime


class IdlePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The next steps for checks of idle machines. `begin`: Slurm nodes on which a check begins. `end`: check jobs to
    cancel. `read`: Slurm nodes with check jobs whose result is to be read.

    `told`: Slurm nodes that have been drained for their failed check; their pods are now to be marked so
    (`IdleCheck.is_told`). `halted`: NodeSets in which no check begins, because too many have failed.
    """

    begin: tuple[str, ...] = ()
    end: tuple[JobId, ...] = ()
    read: tuple[tuple[str, JobId], ...] = ()
    told: tuple[str, ...] = ()
    halted: tuple[str, ...] = ()


def plan_idle_checks(view: IdleView) -> IdlePlan:
    """Return the next steps for the checks of all idle machines."""
    newest = _newest(view)
    running = {name for name, job in newest.items() if not is_job_ended(job.state)}
    untold = tuple((name, JobId(job.id)) for name, job in newest.items() if _is_news(view.pods[name], job))
    under_way = running | {name for name, _ in untold}
    halted = tuple(_halted(view))
    room = max(0, min(_MOST_A_PASS, _MOST_AT_ONCE - len(under_way))) if view.are_all_read else 0
    return IdlePlan(
        begin=tuple(islice(_choose(view, under_way, halted), room)),
        end=tuple(JobId(job.id) for name, job in newest.items() if name in running and _gives_way(view, name, job)),
        read=untold,
        told=tuple(name for name, pod in view.pods.items() if _was_closed(pod)),
        halted=halted,
    )


def last_check(pod: Pod) -> datetime | None:
    """Return when the pod's machine was last checked: at the last idle check with a result, or when the pod was
    created, because a machine is also checked before its slurmd starts. None if neither time is known.
    """
    check = read_idle_check(pod)
    at = check.passed if check is not None and check.outcome is Outcome.NOT_MADE else check.at if check else ""
    times = [parse_rfc3339(each) for each in (pod.metadata.creation_timestamp, at) if each]
    return max(times, default=None)


def make_job(pod: Pod, node: SlurmNode, *, partition: str, qos: str) -> JobSpec:
    """Return the Slurm job that checks the pod's machine.

    It takes the whole node, so that the check finds all GPUs and memory. It runs as root, like the check before slurmd
    starts.
    """
    timeout_s = verify_s(pod) or 0
    return JobSpec(
        name=f"check-{node.name}",
        comment=_comment(pod, node.name),
        partition=partition,
        qos=qos,
        time_limit_min=time_limit_min(timeout_s),
        whole_nodes=True,
        required_nodes=(node.name,),
        memory_mib_per_node=node.effective_memory_mib or node.memory_mib,
        script=check_script(timeout_s),
    )


def read_end(job: SlurmJob, pod: Pod, now: datetime) -> IdleCheck | None:
    """Return the result of the check of an idle machine, which is this job; None while the check runs. A check that
    fails writes that into the job's comment before the job ends.

    If the job ends as COMPLETED, the check has passed. If it ends in another way, the check has failed, so that a check
    which crashes its machine is not repeated. Preemption, cancellation and a failed boot are exceptions: then the check
    was not made. A check that has failed once runs again in the same job. It has failed unless the second run passes or
    the job is cancelled; the syncer cancels it if somebody drains the node.
    """
    before = read_idle_check(pod)
    check = IdleCheck(job=job.id, outcome=Outcome.NOT_MADE, at=rfc3339(now), passed=before.passed if before else "")
    word, text, log = _said(job.comment)
    check = msgspec.structs.replace(check, text=text, log=log)
    if word == FAILED:
        return msgspec.structs.replace(check, outcome=Outcome.FAILED)
    if word == PASSED_AGAIN:
        return msgspec.structs.replace(check, outcome=Outcome.PASSED, passed=check.at)
    if word == NOT_MADE:
        return check
    if not job.is_ended:
        return None
    how = f"its job ended as {', '.join(sorted(job.state - {'COMPLETING'}))}"
    if "COMPLETED" in job.state:
        return msgspec.structs.replace(check, outcome=Outcome.PASSED, passed=check.at)
    if word == FAILED_ONCE and "CANCELLED" not in job.state:
        return msgspec.structs.replace(check, outcome=Outcome.FAILED, text=f"{text}, and {how} before it has passed")
    if "TIMEOUT" in job.state:
        why = "verify did not end in time, and could not be killed"
        return msgspec.structs.replace(check, outcome=Outcome.FAILED, text=why)
    if job.state & _BY_OTHERS:
        return msgspec.structs.replace(check, text=how)
    return msgspec.structs.replace(
        check, outcome=Outcome.FAILED, text=f"{how} with {job.exit_code}, and Slurm does not have its log"
    )


def _said(comment: str) -> tuple[str, str, str]:
    """Return what the check has written into its job's comment: the word of its result, the reason and the log. All are
    empty if it wrote nothing.
    """
    word = next((each for each in _WORDS if comment.startswith(each)), "")
    text, _, log = comment.removeprefix(word).partition("\n") if word else ("", "", "")
    return word, text, log


def refused(pod: Pod, why: str, now: datetime) -> IdleCheck:
    """Return the record of a check that was not made, because Slurm refused its job."""
    before = read_idle_check(pod)
    job, passed = (before.job, before.passed) if before else (0, "")
    return IdleCheck(job=job, outcome=Outcome.NOT_MADE, at=rfc3339(now), passed=passed, text=why)


def record_of(pod: Pod, check: IdleCheck) -> IdleCheck:
    """Return the record of checks that is written on the pod after this check. If the check was not made, a record of
    an earlier failure stays, because the node may not be drained for it yet.
    """
    failed = failed_check(pod)
    if failed is None or check.outcome is not Outcome.NOT_MADE:
        return check
    return msgspec.structs.replace(failed, job=check.job, tried=check.at)


# ----------------------------------------------------------------------------------------------- checks that have begun


def _comment(pod: Pod, name: str) -> str:
    return f"{_COMMENT}{name} {pod.uid}"


def _newest(view: IdleView) -> dict[str, JobRow]:
    """Return, for each Slurm node, the newest check job of its pod that Slurm still knows."""
    pods = {_comment(pod, name): name for name, pod in view.pods.items()}
    found: dict[str, JobRow] = {}
    for job in view.jobs:
        name = pods.get(job.comment) if job.partition == view.partition else None
        if name is not None and (name not in found or found[name].id < job.id):
            found[name] = job
    return found


def _is_news(pod: Pod, job: JobRow) -> bool:
    """True if the job of the check has started, and its result is not yet written on the pod."""
    check = read_idle_check(pod)
    return not is_job_pending(job.state) and (check is None or check.job != job.id)


def _gives_way(view: IdleView, name: str, job: JobRow) -> bool:
    """True if the check's job has to end: it did not start at once, or its node is closed or will be removed."""
    node = view.nodes.get(name)
    return is_job_pending(job.state) or _is_closed(view.pods[name]) or (node is not None and node.is_closed)


def _was_closed(pod: Pod) -> bool:
    check = read_idle_check(pod)
    is_news = check is not None and check.outcome is Outcome.FAILED and not check.is_told
    return is_news and names.ANNOTATION_HEALTH_DRAIN in pod.annotations


# ------------------------------------------------------------------------------------------------ checks that may begin


def _halted(view: IdleView) -> Iterator[str]:
    of_nodeset = Counter(_nodeset(pod) for pod in view.pods.values())
    failed = Counter(_nodeset(pod) for pod in view.pods.values() if _has_open_failure(view, pod))
    for nodeset, rule in view.rules.items():
        if failed[nodeset] > rule.most_failures(of_nodeset[nodeset]):
            yield nodeset


def _has_open_failure(view: IdleView, pod: Pod) -> bool:
    """True if the pod's check failed in the last `rule.seconds`, and the node is still drained for it or not drained
    yet.
    """
    rule, check = view.rules.get(_nodeset(pod)), failed_check(pod)
    if rule is None or check is None or view.now - parse_rfc3339(check.at) >= timedelta(seconds=rule.seconds):
        return False
    return not check.is_told or names.ANNOTATION_HEALTH_DRAIN in pod.annotations


def _choose(view: IdleView, under_way: Set[str], halted: Sequence[str]) -> Iterator[str]:
    """Yield the Slurm nodes on which a check begins: idle nodes whose check is due and that no waiting job can use, the
    longest unchecked first, as many as each NodeSet's rule allows.
    """
    of_nodeset = Counter(_nodeset(pod) for pod in view.pods.values())
    room = {each: 0 if each in halted else rule.most(of_nodeset[each]) for each, rule in view.rules.items()}
    for name in under_way:
        room[_nodeset(view.pods[name])] = room.get(_nodeset(view.pods[name]), 0) - 1
    due = [(at, name) for name, pod in view.pods.items() if (at := _due_since(view, pod)) is not None]
    wanted = _wanted(view) if due else frozenset()
    for _, name in sorted(due):
        nodeset = _nodeset(view.pods[name])
        if room[nodeset] > 0 and name not in under_way and name not in wanted and _is_idle(view, name):
            room[nodeset] -= 1
            yield name


def _due_since(view: IdleView, pod: Pod) -> datetime | None:
    """Return when the pod's machine was last checked, if a check is due; None if it is not."""
    rule, at, check = view.rules.get(_nodeset(pod)), last_check(pod), read_idle_check(pod)
    if rule is None or at is None or verify_s(pod) is None or view.now - at < timedelta(seconds=rule.seconds):
        return None
    is_soon = check is not None and view.now - parse_rfc3339(check.tried or check.at) < min(
        AGAIN_AFTER, timedelta(seconds=rule.seconds)
    )
    return None if is_soon else at


def _is_idle(view: IdleView, name: str) -> bool:
    """True if the Slurm node is free, its pod is Ready, and nobody has reserved, planned or closed the node."""
    node, pod = view.nodes.get(name), view.pods[name]
    is_free = node is not None and node.state - {"DYNAMIC_NORM"} == {"IDLE"} and node.alloc_cpus == 0
    return is_free and pod.is_condition_true("Ready") and not _is_closed(pod)


def _is_closed(pod: Pod) -> bool:
    return pod.is_deleting or token_of(pod) is not None or any(each in pod.annotations for each in _CLOSING)


def _wanted(view: IdleView) -> frozenset[str]:
    """Return the nodes of all partitions in which a job waits for free nodes."""
    waits = {
        partition
        for job in view.jobs
        if is_job_pending(job.state) and job.reason in _MAY_START and job.partition != view.partition
        for partition in job.partition.split(",")
    }
    return frozenset(node for each in view.partitions if each.name in waits for node in each.nodes)


def oldest_checks(pods: Iterable[Pod], rules: Mapping[str, IdleRule]) -> dict[str, float]:
    """Return for each NodeSet when its longest unchecked machine was last checked, in seconds since 1970."""
    found: dict[str, float] = {}
    for pod in pods:
        nodeset, at = _nodeset(pod), last_check(pod)
        if nodeset in rules and at is not None:
            found[nodeset] = min(found.get(nodeset, at.timestamp()), at.timestamp())
    return found


def _nodeset(pod: Pod) -> str:
    return pod.labels.get(names.LABEL_NODESET, "")
