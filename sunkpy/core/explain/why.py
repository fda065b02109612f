"""Finds why a gang or pod is in its state: the cause that `decide_gang` reports, or else how far the gang has come.

This module has no rules about gangs. It only chooses the pods that the person asks about.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from sunkpy.core.explain.facts import Facts
from sunkpy.core.explain.job_on_pods import eviction_message, last_message
from sunkpy.core.gang.actions import Bind, BindDirectly, GangAction, Report, Submit, WaitCause
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.phases import GangState, is_over, why_stuck
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import is_job_running
from sunkpy.core.placement.admission import Verdict


class Stage(enum.Enum):
    """How far a gang or pod has come, from its scheduling gates to its end. `why` gives a stage if the gang or pod has
    ended or is gone, or if `decide_gang` reports nothing that it waits for.
    """

    GONE = "its pods are gone"
    POD_OVER = "the pod has ended, others of its gang have not"
    GATED = "a scheduling gate holds it"
    DELETED = "it was deleted before it was bound"
    NODES_UNKNOWN = "the nodes cannot be read"
    TO_SUBMIT = "its job can be submitted"
    QUEUED = "it has a job, whose state is not known"
    STARTING = "its job starts"
    MUST_WAIT = "its node has no room before other pods have ended"
    TO_BIND = "it can be bound"
    DIRECT = "it is bound without a job"
    BOUND = "it is bound, and no container runs"
    STUCK = "it is bound, and the kubelet cannot start it"
    RUNS = "a container runs"
    JOB_LOST = "it has a node, and Slurm has lost its job"
    NO_JOB = "somebody else bound it, and it has no job"
    HANDING_OVER = "its job has lost the nodes"
    ENDING = "the pods have ended, the job not yet"
    OVER = "pods and job have ended"


Cause = WaitCause | Stage


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a gang or pod is in its state. `text`: what `decide_gang`, the kubelet or Kubernetes says about it; may be
    empty.
    """

    cause: Cause
    text: str = ""


def why(facts: Facts) -> Why:
    """Return why the pod that the person asks about is in its state, or why the gang is if they ask about the gang."""
    snapshot, gang, pod = facts.snapshot, facts.snapshot.gang, facts.pod
    if gang is None:
        return Why(cause=Stage.GONE)
    ended = _ended(facts, pod)
    if ended is not None:
        return ended
    actions = decide_gang(snapshot, facts.policy)
    if (report := _report(actions, pod)) is not None:
        return Why(cause=report.cause, text=report.message)
    if pod is None:
        waiting = [each for each in gang.members if not each.spec.node_name]
        has_node = len(waiting) < len(gang.members)
    else:
        waiting, has_node = [pod], bool(pod.spec.node_name)
    if has_node:
        return _why_with_nodes(facts)
    return _why_without(facts, waiting, actions)


def _ended(facts: Facts, pod: Pod | None) -> Why | None:
    snapshot = facts.snapshot
    if snapshot.state is GangState.DONE:
        return Why(cause=Stage.OVER, text=_how_ended(snapshot.pods if pod is None else [pod]))
    if snapshot.state is GangState.ENDING:
        return Why(cause=Stage.ENDING, text=_how_ended(snapshot.pods if pod is None else [pod]))
    if pod is not None and is_over(pod):
        return Why(cause=Stage.POD_OVER, text=_how_ended([pod]))
    return None


def _how_ended(pods: Sequence[Pod]) -> str:
    phases = {pod.status.phase: pod for pod in pods}
    told = [eviction_message(pod) or pod.status.message for pod in phases.values()]
    return "; ".join([", ".join(sorted(phases)), *filter(None, told)])


def _report(actions: Sequence[GangAction], pod: Pod | None) -> Report | None:
    reports = [action for action in actions if isinstance(action, Report)]
    return next((report for report in reports if pod is None or report.pod.uid == pod.uid), None)


def _why_with_nodes(facts: Facts) -> Why:
    snapshot = facts.snapshot
    assert snapshot.gang is not None
    if snapshot.gang.never_queues:
        return Why(cause=Stage.DIRECT)
    evicted = next(filter(None, map(eviction_message, snapshot.pods)), "")
    if snapshot.state is GangState.HANDING_OVER or evicted:
        return Why(cause=Stage.HANDING_OVER, text=evicted)
    if snapshot.bound_job is None or snapshot.bound_job.is_lost:
        return Why(cause=Stage.JOB_LOST if snapshot.had_job else Stage.NO_JOB)
    asked = [facts.pod] if facts.pod is not None else snapshot.pods if snapshot.state is not GangState.RUNNING else ()
    if stuck := next(filter(None, map(why_stuck, asked)), ""):
        return Why(cause=Stage.STUCK, text=stuck)
    return Why(cause=Stage.RUNS if snapshot.state is GangState.RUNNING else Stage.BOUND)


def _why_without(facts: Facts, waiting: Sequence[Pod], actions: Sequence[GangAction]) -> Why:
    snapshot = facts.snapshot
    if all(pod.is_deleting for pod in waiting):
        return Why(cause=Stage.DELETED)
    gates = sorted({gate.name for pod in snapshot.pods for gate in pod.spec.scheduling_gates})
    if gates:
        return Why(cause=Stage.GATED, text=", ".join(gates))
    if any(isinstance(action, Bind | BindDirectly) for action in actions):
        return _why_not_bound(facts, waiting)
    if snapshot.state is GangState.STARTED or any(is_job_running(job.state) for job in snapshot.live_jobs):
        return Why(cause=Stage.STARTING)
    if snapshot.live_jobs:
        return Why(cause=Stage.QUEUED)
    if any(isinstance(action, Submit) for action in actions):
        return Why(cause=Stage.TO_SUBMIT, text=last_message(waiting))
    return Why(cause=Stage.NODES_UNKNOWN, text=last_message(waiting))


def _why_not_bound(facts: Facts, waiting: Sequence[Pod]) -> Why:
    """Return why pods that could be bound are not bound yet: what their nodes' kubelets would answer says whether they
    would be refused, would have to wait, or are to be bound next.
    """
    verdicts = [facts.admissions[pod.uid] for pod in waiting if pod.uid in facts.admissions]
    refused = next((each for each in verdicts if each.verdict is Verdict.REFUSE), None)
    if refused is not None:
        return Why(cause=WaitCause.KUBELET, text=refused.why)
    waits = next((each for each in verdicts if each.verdict is Verdict.WAIT), None)
    return Why(cause=Stage.MUST_WAIT, text=waits.why) if waits is not None else Why(cause=Stage.TO_BIND)
