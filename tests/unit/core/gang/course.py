"""A small world of one gang and its job, in which every event is one atomic step.

Who owns a band makes its pods: the leader, workers when it runs, and a new pod in the stead of each that is gone.

`steps` lists what may happen next: an action that `decide_gang` wants (alone, as if a crash followed), or something
that Slurm or a kubelet does. So every course of events is a walk, and the table of moves can be held against it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from sunkpy.core.gang.actions import Bind, Binding, Cancel, Cover, Evict, Finish, Submit
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.families import assemble, identify
from sunkpy.core.gang.lifecycle import Event, State
from sunkpy.core.gang.request import Policy
from sunkpy.core.gang.view import GangView, JobView, is_over
from sunkpy.core.model.objects import ContainerState, ContainerStatus, Pod, Running
from sunkpy.core.placement.eligibility import Eligibility
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.trio import WITH_BAND, band_labels

POLICY = Policy(gpu_resources={})
FITS = Eligibility(eligible=("n1", "n2", "n3"))
JOBS_AT_MOST = 2
PODS_AT_MOST = 6

Step = tuple[Event | None, GangView]
"""What happened (None: nothing that the table names), and the gang after it."""


def begin(pods: list[Pod]) -> GangView:
    return seen(GangView(id=identify(pods[0], families=WITH_BAND), gang=None, eligibility=FITS), pods)


def seen(view: GangView, pods: list[Pod]) -> GangView:
    gang = assemble(view.id, pods, families=WITH_BAND) if pods else None
    placed = {pod.uid: view.placed.get(pod.uid, "") for pod in pods if pod.spec.node_name}
    is_half_bound = view.is_half_bound and any(not pod.spec.node_name for pod in pods)
    return replace(view, gang=gang, placed=placed, is_half_bound=is_half_bound)


def steps(view: GangView) -> Iterator[Step]:
    yield from _our_steps(view)
    yield from _slurms_steps(view)
    yield from _kubelets_steps(view)
    if is_band(view) and view.state is not State.DONE:  # what is made after that is another life
        yield from _owners_steps(view)


def is_band(view: GangView) -> bool:
    return view.id.name == "band" and view.gang is not None and not view.gang.one_per_node


def band_pod(role: str, index: int, number: int) -> Pod:
    pod = make_pod(f"{role}-{index}-{number}", uid=f"{role}-{index}-{number}")
    meta = replace(pod.metadata, labels=band_labels(role, index), creation_timestamp=f"{number:03}")
    return replace(pod, metadata=meta)


_KINDLY = (Event.JOB_RESUMED, Event.JOB_STARTED, Event.EPILOG_ENDED, Event.POD_CREATED, Event.CONTAINER_RUNS)


def settled(view: GangView) -> GangView:
    """What becomes of it when from now on nothing is taken away: ours first, then what is ending ends."""
    view = replace(view, idle_s=1000.0)
    for _ in range(80):
        # The shell forgets jobs that are through, and an owner has not made many pods yet.
        view = replace(view, jobs=tuple(j for j in view.jobs if not j.is_settled or j.id == view.bound_to))
        if len(view.jobs) == JOBS_AT_MOST:
            view = replace(view, jobs=tuple(j for j in view.jobs if not j.is_settled))
        after = next((after for _, after in _our_steps(view) if after != view), None)
        if after is None:
            after = next((after for after in _ending_steps(view)), None)
        if after is None:
            after = next((after for event, after in steps(view) if event in _KINDLY and after != view), None)
        if after is None:
            return view
        view = after
    raise AssertionError(f"never comes to rest: {describe(view)}")


def _ending_steps(view: GangView) -> Iterator[GangView]:
    for job in view.jobs:
        if "COMPLETING" in job.state:
            yield _with_job(view, job, state=job.state - {"COMPLETING"})
    gone = [pod for pod in view.pods if pod.is_deleting]
    if gone:
        yield seen(view, [pod for pod in view.pods if pod not in gone])


def describe(view: GangView) -> str:
    pods = [(p.name, p.spec.node_name, p.status.phase, p.is_deleting) for p in view.pods]
    return f"{view.state} pods={pods} jobs={view.jobs} bound_to={view.bound_to} placed={view.placed}"


def _our_steps(view: GangView) -> Iterator[Step]:
    for action in decide_gang(view, POLICY):
        match action:
            case Submit() if len(view.jobs) < JOBS_AT_MOST:
                yield (
                    Event.SUBMIT,
                    replace(view, jobs=(*view.jobs, JobView(id=1 + max((j.id for j in view.jobs), default=0)))),
                )
            case Bind(job=job, bindings=bindings):
                after = replace(view, bound_to=job)
                for binding in bindings:
                    after = _bound(after, binding)
                yield Event.BIND, after
                if len(bindings) > 1:  # the apiserver took one and no other
                    half = replace(view, bound_to=job, is_half_bound=True)
                    yield Event.BIND, _bound(half, bindings[0])
            case Finish(job=job):
                (own,) = [known for known in view.jobs if known.id == job]
                if own.told_s_ago is None:
                    yield None, _with_job(view, own, told_s_ago=1.0)
                yield from _ends(view, own, "COMPLETED")
            case Cover(job=job):
                yield None, replace(view, bound_to=job)
            case Cancel(job=job):
                (own,) = [known for known in view.jobs if known.id == job]
                yield from _ends(view, own, "CANCELLED")
            case Evict(pod=pod):
                yield None, _with_pod(view, _deleting(pod))


def _bound(view: GangView, binding: Binding) -> GangView:
    pod, node = binding.pod, binding.slurm_node
    placed = replace(view, placed=view.placed | {pod.uid: node})
    return _with_pod(placed, replace(pod, spec=replace(pod.spec, node_name=f"k-{node}")))


def _slurms_steps(view: GangView) -> Iterator[Step]:
    for job in view.jobs:
        if job.is_settled:
            continue
        if "COMPLETING" in job.state:
            yield Event.EPILOG_ENDED, _with_job(view, job, state=job.state - {"COMPLETING"})
            continue
        if not job.state or "PENDING" in job.state:
            # Those that pods are on first: a job in the place of a lost one requires them.
            wanted = dict.fromkeys((*view.holding.values(), *FITS.eligible))
            nodes = tuple(wanted)[: max(len(view.pods), 1)]
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
        if is_band(view) and pod.is_deleting and len(view.pods) > 1:
            after = seen(view, [other for other in view.pods if other.uid != pod.uid])
            yield Event.PODS_OVER if all(map(is_over, after.pods)) else Event.POD_GONE, after
    # An owner takes its pods back together; one that replaces single members is in `_owners_steps`.
    if all(is_over(pod) or not pod.spec.node_name for pod in view.pods):
        yield Event.PODS_OVER, seen(view, [])


def _owners_steps(view: GangView) -> Iterator[Step]:
    """A pod for each place that has none; workers only while the leader runs."""
    number = 1 + max(int(pod.metadata.creation_timestamp) for pod in view.pods)
    for role, index in (("leader", 0), ("worker", 0), ("worker", 1)):
        own = [pod for pod in view.pods if pod.labels == band_labels(role, index) and not is_over(pod)]
        is_wanted = role == "leader" or any(
            pod.labels["example.com/role"] == "leader" and pod.status.container_statuses for pod in view.pods
        )
        if not own and is_wanted and (number < PODS_AT_MOST or view.idle_s):
            yield Event.POD_CREATED, seen(view, [*view.pods, band_pod(role, index, number)])


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
