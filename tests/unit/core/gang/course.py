"""A small world of one gang and its job, in which every event is one atomic step.

`steps` lists what may happen next: an action that `decide_gang` wants (alone, as if a crash followed), or something
that Slurm or a kubelet does. So every course of events is a walk, and the table of moves can be held against it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from sunkpy.core.gang.actions import Bind, Cancel, Cover, Evict, Submit
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.families import assemble, identify
from sunkpy.core.gang.lifecycle import Event
from sunkpy.core.gang.request import Policy
from sunkpy.core.gang.view import GangView, JobView, is_over
from sunkpy.core.model.objects import ContainerState, ContainerStatus, Pod, Running
from sunkpy.core.placement.eligibility import Eligibility
from tests.unit.core.gang.trio import WITH_TRIO

POLICY = Policy(gpu_resources={})
FITS = Eligibility(eligible=("n1", "n2", "n3"))
JOBS_AT_MOST = 2

Step = tuple[Event | None, GangView]
"""What happened (None: nothing that the table names), and the gang after it."""


def begin(pods: list[Pod]) -> GangView:
    return seen(GangView(id=identify(pods[0], families=WITH_TRIO), gang=None, eligibility=FITS), pods)


def seen(view: GangView, pods: list[Pod]) -> GangView:
    gang = assemble(view.id, pods, families=WITH_TRIO) if pods else None
    placed = {pod.uid: view.placed.get(pod.uid, "") for pod in pods if pod.spec.node_name}
    return replace(view, gang=gang, placed=placed)


def steps(view: GangView) -> Iterator[Step]:
    yield from _our_steps(view)
    yield from _slurms_steps(view)
    yield from _kubelets_steps(view)


def _our_steps(view: GangView) -> Iterator[Step]:
    for action in decide_gang(view, POLICY):
        match action:
            case Submit() if len(view.jobs) < JOBS_AT_MOST:
                yield Event.SUBMIT, replace(view, jobs=(*view.jobs, JobView(id=len(view.jobs) + 1)))
            case Bind(pod=pod, job=job, slurm_node=node):
                after = replace(view, placed=view.placed | {pod.uid: node}, bound_to=job)
                yield Event.BIND, _with_pod(after, replace(pod, spec=replace(pod.spec, node_name=f"k-{node}")))
            case Cover(job=job):
                yield None, replace(view, bound_to=job)
            case Cancel(job=job):
                (own,) = [known for known in view.jobs if known.id == job]
                yield from _ends(view, own, "CANCELLED")
            case Evict(pod=pod):
                yield None, _with_pod(view, _deleting(pod))


def _slurms_steps(view: GangView) -> Iterator[Step]:
    for job in view.jobs:
        if job.is_settled:
            continue
        if "COMPLETING" in job.state:
            yield Event.EPILOG_ENDED, _with_job(view, job, state=job.state - {"COMPLETING"})
            continue
        if not job.state or "PENDING" in job.state:
            nodes = FITS.eligible[: max(len(view.pods), 1)]
            started = {"state": frozenset({"RUNNING"}), "nodes": nodes, "prologs": frozenset(nodes)}
            yield Event.JOB_STARTED, _with_job(view, job, **started, epilogs=frozenset())
        if "RUNNING" in job.state:
            yield Event.JOB_SUSPENDED, _with_job(view, job, state=frozenset({"SUSPENDED"}))
            again = {"state": frozenset({"PENDING"}), "prologs": frozenset(), "epilogs": frozenset()}
            yield Event.JOB_QUEUED_AGAIN, _with_job(view, job, **again)
        if "SUSPENDED" in job.state:
            yield Event.JOB_RESUMED, _with_job(view, job, state=frozenset({"RUNNING"}))
        yield from _ends(view, job, "PREEMPTED")
        yield Event.JOB_LOST, _with_job(view, job, missing=2)
        yield Event.JOB_LOST, _with_job(view, job, state=frozenset({"NODE_FAIL"}))


def _ends(view: GangView, job: JobView, how: str) -> Iterator[Step]:
    yield Event.JOB_ENDED, _with_job(view, job, state=frozenset({how}))
    if job.nodes:
        ending = {"state": frozenset({how, "COMPLETING"}), "epilogs": frozenset(job.nodes)}
        yield Event.JOB_ENDED, _with_job(view, job, **ending)


def _kubelets_steps(view: GangView) -> Iterator[Step]:
    for pod in view.pods:
        runs = bool(pod.status.container_statuses)
        if runs:
            yield Event.CONTAINER_STOPS, _with_pod(view, _status(pod, pod.status.phase, runs=False))
        elif pod.spec.node_name and not pod.is_finished:
            yield Event.CONTAINER_RUNS, _with_pod(view, _status(pod, "Running", runs=True))
        if pod.spec.node_name and not pod.is_finished:
            for phase in ("Succeeded", "Failed"):
                after = _with_pod(view, _status(pod, phase, runs=False))
                yield Event.PODS_OVER if all(map(is_over, after.pods)) else Event.CONTAINER_STOPS, after
        if not pod.spec.node_name and not pod.is_deleting:
            yield None, _with_pod(view, _deleting(pod))
    # An owner takes its pods back together; who replaces single members is the business of a family.
    if all(is_over(pod) or not pod.spec.node_name for pod in view.pods):
        yield Event.PODS_OVER, seen(view, [])


def _status(pod: Pod, phase: str, *, runs: bool) -> Pod:
    containers = (ContainerStatus(name="c", state=ContainerState(running=Running())),) if runs else ()
    return replace(pod, status=replace(pod.status, phase=phase, container_statuses=containers))


def _deleting(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-11-21T00:00:00Z"))


def _with_pod(view: GangView, pod: Pod) -> GangView:
    return seen(view, [pod if other.uid == pod.uid else other for other in view.pods])


def _with_job(view: GangView, job: JobView, **fields: object) -> GangView:
    changed = replace(job, **fields)
    return replace(view, jobs=tuple(changed if other.id == job.id else other for other in view.jobs))
