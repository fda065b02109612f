"""Which machines are checked while nothing runs on them, by Slurm jobs that every other job preempts.

All that is remembered stands in Slurm and on the slurmd pod: a check that is under way is a job of its partition whose
comment names the pod, and how it ended is written on that pod. So who begins them may be another at any time, and
begins none twice. A check that was preempted counts as not made, and is not tried again soon.
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
"""A check that was not made is tried again after this time."""
_MOST_A_PASS: Final = 20
_MOST_AT_ONCE: Final = 50
"""The most checks at once, of all NodeSets. A pass reads each; it has to end well before a failed check leaves its
node.
"""
_FAILURES: Final = 2
_COMMENT: Final = "sunkpy check of "
_CLOSING: Final = (names.ANNOTATION_CORDON, names.ANNOTATION_HEALTH_DRAIN)
_BY_OTHERS: Final = frozenset({"PREEMPTED", "CANCELLED", "BOOT_FAIL"})
_WORDS: Final = (FAILED, FAILED_ONCE, PASSED_AGAIN, NOT_MADE)
_MAY_START: Final = frozenset({"", "None", "Priority", "Resources"})
"""Reasons of jobs that start as soon as there is room (job_state_reason.c)."""


class IdleRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """When and how machines of a NodeSet are checked. At most `max_percent` of them, or one, are checked at once.
    `qos`: that of the job, if it must be named.
    """

    seconds: int
    max_percent: int = 10
    qos: str = ""

    def most(self, nodes: int) -> int:
        """How many checks may run at once if the NodeSet has so many nodes."""
        return max(1, nodes * self.max_percent // 100)

    def most_failures(self, nodes: int) -> int:
        """If more checks than this fail, something that the nodes share has failed, such as a file server."""
        return max(_FAILURES, nodes * self.max_percent // 100)


class IdleView(msgspec.Struct, frozen=True, kw_only=True):
    """What the decision reads. `pods`: slurmd pods by Slurm node. `rules`: by NodeSet; only those that may begin checks
    now.

    `are_all_read`: no job is missing. `partition`: that of the checks.
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
    """The next steps: nodes on which a check begins, jobs of checks that are ended, and checks whose end is read, by
    node.

    `told`: the nodes that were closed since their check failed. `halted`: the NodeSets in which none begins, since too
    many have failed.
    """

    begin: tuple[str, ...] = ()
    end: tuple[JobId, ...] = ()
    read: tuple[tuple[str, JobId], ...] = ()
    told: tuple[str, ...] = ()
    halted: tuple[str, ...] = ()


def plan_idle_checks(view: IdleView) -> IdlePlan:
    """The next steps of all checks."""
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
    """When the machine of the pod was last checked: by a job that came to an end, or before its slurmd
    first started.
    """
    check = read_idle_check(pod)
    at = check.passed if check is not None and check.outcome is Outcome.NOT_MADE else check.at if check else ""
    times = [parse_rfc3339(each) for each in (pod.metadata.creation_timestamp, at) if each]
    return max(times, default=None)


def make_job(pod: Pod, node: SlurmNode, *, partition: str, qos: str) -> JobSpec:
    """The job of a check. It has the whole node, so that the check finds all its GPUs and memory. It runs as root, as
    the check before slurmd does.
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
    """How a check ended; None while it runs. A check that failed says so before its job ends.

    It counts as failed however its job ended, but for what is none of its doing: a check that ends its machine is not
    tried again and again. One that has failed once counts as failed unless it passes afterwards, or is
    cancelled: the syncer does that if somebody drains the node.
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
        return msgspec.structs.replace(check, outcome=Outcome.FAILED, text="verify did not end, and could not be ended")
    if job.state & _BY_OTHERS:
        return msgspec.structs.replace(check, text=how)
    return msgspec.structs.replace(
        check, outcome=Outcome.FAILED, text=f"{how} with {job.exit_code}, and Slurm has not its log"
    )


def _said(comment: str) -> tuple[str, str, str]:
    """What its job has said: the word that tells how it went, why, and the log; empty while it has said nothing."""
    word = next((each for each in _WORDS if comment.startswith(each)), "")
    text, _, log = comment.removeprefix(word).partition("\n") if word else ("", "", "")
    return word, text, log


def refused(pod: Pod, why: str, now: datetime) -> IdleCheck:
    """The record of a check whose job Slurm does not take."""
    before = read_idle_check(pod)
    job, passed = (before.job, before.passed) if before else (0, "")
    return IdleCheck(job=job, outcome=Outcome.NOT_MADE, at=rfc3339(now), passed=passed, text=why)


def record_of(pod: Pod, check: IdleCheck) -> IdleCheck:
    """The record on the pod after the check. A failure stays until another check was made: the node may
    be open still.
    """
    failed = failed_check(pod)
    if failed is None or check.outcome is not Outcome.NOT_MADE:
        return check
    return msgspec.structs.replace(failed, job=check.job, tried=check.at)


# ---------------------------------------------------------------------------------------------------------- those begun


def _comment(pod: Pod, name: str) -> str:
    return f"{_COMMENT}{name} {pod.uid}"


def _newest(view: IdleView) -> dict[str, JobRow]:
    """The last job of a check for each slurmd pod, that Slurm remembers."""
    pods = {_comment(pod, name): name for name, pod in view.pods.items()}
    found: dict[str, JobRow] = {}
    for job in view.jobs:
        name = pods.get(job.comment) if job.partition == view.partition else None
        if name is not None and (name not in found or found[name].id < job.id):
            found[name] = job
    return found


def _is_news(pod: Pod, job: JobRow) -> bool:
    """How it stands is not written on the pod. One that waits has nothing to tell."""
    check = read_idle_check(pod)
    return not is_job_pending(job.state) and (check is None or check.job != job.id)


def _gives_way(view: IdleView, name: str, job: JobRow) -> bool:
    """It did not start at once, or its node is closed or to go: nobody shall wait for it."""
    node = view.nodes.get(name)
    return is_job_pending(job.state) or _is_closed(view.pods[name]) or (node is not None and node.is_closed)


def _was_closed(pod: Pod) -> bool:
    check = read_idle_check(pod)
    is_news = check is not None and check.outcome is Outcome.FAILED and not check.is_told
    return is_news and names.ANNOTATION_HEALTH_DRAIN in pod.annotations


# ------------------------------------------------------------------------------------------------------- those to begin


def _halted(view: IdleView) -> Iterator[str]:
    of_nodeset = Counter(_nodeset(pod) for pod in view.pods.values())
    failed = Counter(_nodeset(pod) for pod in view.pods.values() if _has_open_failure(view, pod))
    for nodeset, rule in view.rules.items():
        if failed[nodeset] > rule.most_failures(of_nodeset[nodeset]):
            yield nodeset


def _has_open_failure(view: IdleView, pod: Pod) -> bool:
    """It is young, and nobody has mended the machine or opened the node again."""
    rule, check = view.rules.get(_nodeset(pod)), failed_check(pod)
    if rule is None or check is None or view.now - parse_rfc3339(check.at) >= timedelta(seconds=rule.seconds):
        return False
    return not check.is_told or names.ANNOTATION_HEALTH_DRAIN in pod.annotations


def _choose(view: IdleView, under_way: Set[str], halted: Sequence[str]) -> Iterator[str]:
    """Those that are due and idle, the longest unchecked first, as many as may be."""
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
    """When its machine was last checked, if that is too long ago; None: it is not due."""
    rule, at, check = view.rules.get(_nodeset(pod)), last_check(pod), read_idle_check(pod)
    if rule is None or at is None or verify_s(pod) is None or view.now - at < timedelta(seconds=rule.seconds):
        return None
    is_soon = check is not None and view.now - parse_rfc3339(check.tried or check.at) < min(
        AGAIN_AFTER, timedelta(seconds=rule.seconds)
    )
    return None if is_soon else at


def _is_idle(view: IdleView, name: str) -> bool:
    """Nothing is on it, nobody has reserved it, planned for it or closed it, and it stays."""
    node, pod = view.nodes.get(name), view.pods[name]
    is_free = node is not None and node.state - {"DYNAMIC_NORM"} == {"IDLE"} and node.alloc_cpus == 0
    return is_free and pod.is_condition_true("Ready") and not _is_closed(pod)


def _is_closed(pod: Pod) -> bool:
    return pod.is_deleting or token_of(pod) is not None or any(each in pod.annotations for each in _CLOSING)


def _wanted(view: IdleView) -> frozenset[str]:
    """The nodes of partitions in which a job waits for room."""
    waits = {
        partition
        for job in view.jobs
        if is_job_pending(job.state) and job.reason in _MAY_START and job.partition != view.partition
        for partition in job.partition.split(",")
    }
    return frozenset(node for each in view.partitions if each.name in waits for node in each.nodes)


def oldest_checks(pods: Iterable[Pod], rules: Mapping[str, IdleRule]) -> dict[str, float]:
    """For each NodeSet, the oldest among the last checks of its machines, in seconds since 1970, if one was checked."""
    found: dict[str, float] = {}
    for pod in pods:
        nodeset, at = _nodeset(pod), last_check(pod)
        if nodeset in rules and at is not None:
            found[nodeset] = min(found.get(nodeset, at.timestamp()), at.timestamp())
    return found


def _nodeset(pod: Pod) -> str:
    return pod.labels.get(names.LABEL_NODESET, "")
