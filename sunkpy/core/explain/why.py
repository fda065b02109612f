"""Why a gang stands where it stands: the cause that `decide_gang` reports, or, where it reports none, the state.

Here is no rule of its own about what to do with a gang: only which of its pods the question is about.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from sunkpy.core.explain.facts import Facts
from sunkpy.core.explain.told import evicted_because, said_of
from sunkpy.core.gang.actions import Bind, BindDirectly, GangAction, Report, Submit, WaitCause
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.lifecycle import State
from sunkpy.core.gang.view import is_over
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import is_job_running
from sunkpy.core.placement.admission import Verdict


class Moment(enum.Enum):
    """Where a gang can be without having to wait for anything that is reported."""

    GONE = "its pods are gone"
    POD_OVER = "the pod has ended, others of its gang have not"
    GATED = "a scheduling gate is there"
    DELETED = "deleted before it was bound"
    NODES_UNKNOWN = "it is not known which nodes there are"
    TO_SUBMIT = "nothing is in the way of its job"
    QUEUED = "it has a job, of which no more is known"
    STARTING = "its job starts"
    MUST_WAIT = "its node has no room before other pods have ended"
    TO_BIND = "nothing is in the way of its binding"
    DIRECT = "bound without a job"
    BOUND = "bound, and no container runs"
    RUNS = "a container runs"
    JOB_LOST = "it has a node, and Slurm no longer knows why"
    HANDING_OVER = "its job has lost the nodes"
    ENDING = "the pods have ended, the job not yet"
    OVER = "pods and job have ended"


Cause = WaitCause | Moment


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """The cause, and the words in which the decision gives it; empty where the cause says it all."""

    cause: Cause
    text: str = ""


def why(facts: Facts) -> Why:
    """Of the pod that was asked for, or of the gang."""
    view, gang, pod = facts.view, facts.view.gang, facts.pod
    if gang is None:
        return Why(cause=Moment.GONE)
    ended = _ended(facts, pod)
    if ended is not None:
        return ended
    actions = decide_gang(view, facts.policy)
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
    view = facts.view
    if view.state is State.DONE:
        return Why(cause=Moment.OVER, text=_how_ended(view.pods if pod is None else [pod]))
    if view.state is State.ENDING:
        return Why(cause=Moment.ENDING, text=_how_ended(view.pods if pod is None else [pod]))
    if pod is not None and is_over(pod):
        return Why(cause=Moment.POD_OVER, text=_how_ended([pod]))
    return None


def _how_ended(pods: Sequence[Pod]) -> str:
    """The phases, and what a pod itself says of its end."""
    phases = {pod.status.phase: pod for pod in pods}
    told = [evicted_because(pod) or pod.status.message for pod in phases.values()]
    return "; ".join([", ".join(sorted(phases)), *filter(None, told)])


def _report(actions: Sequence[GangAction], pod: Pod | None) -> Report | None:
    reports = [action for action in actions if isinstance(action, Report)]
    return next((report for report in reports if pod is None or report.pod.uid == pod.uid), None)


def _why_with_nodes(facts: Facts) -> Why:
    view = facts.view
    assert view.gang is not None
    if view.gang.never_queues:
        return Why(cause=Moment.DIRECT)
    evicted = next(filter(None, map(evicted_because, view.pods)), "")
    if view.state is State.HANDING_OVER or evicted:
        return Why(cause=Moment.HANDING_OVER, text=evicted)
    if view.bound_job is None or view.bound_job.is_lost:
        return Why(cause=Moment.JOB_LOST)
    return Why(cause=Moment.RUNS if view.state is State.RUNNING else Moment.BOUND)


def _why_without(facts: Facts, waiting: Sequence[Pod], actions: Sequence[GangAction]) -> Why:
    view = facts.view
    if all(pod.is_deleting for pod in waiting):
        return Why(cause=Moment.DELETED)
    gates = sorted({gate.name for pod in view.pods for gate in pod.spec.scheduling_gates})
    if gates:
        return Why(cause=Moment.GATED, text=", ".join(gates))
    if any(isinstance(action, Bind | BindDirectly) for action in actions):
        return _why_not_bound(facts, waiting)
    if view.state is State.STARTED or any(is_job_running(job.state) for job in view.live_jobs):
        return Why(cause=Moment.STARTING)
    if view.live_jobs:
        return Why(cause=Moment.QUEUED)
    if any(isinstance(action, Submit) for action in actions):
        return Why(cause=Moment.TO_SUBMIT, text=said_of(waiting))
    return Why(cause=Moment.NODES_UNKNOWN, text=said_of(waiting))


def _why_not_bound(facts: Facts, waiting: Sequence[Pod]) -> Why:
    """It is about to be bound: what the kubelets say."""
    verdicts = [facts.admissions[pod.uid] for pod in waiting if pod.uid in facts.admissions]
    refused = next((each for each in verdicts if each.verdict is Verdict.REFUSE), None)
    if refused is not None:
        return Why(cause=WaitCause.KUBELET, text=refused.why)
    waits = next((each for each in verdicts if each.verdict is Verdict.WAIT), None)
    return Why(cause=Moment.MUST_WAIT, text=waits.why) if waits is not None else Why(cause=Moment.TO_BIND)
