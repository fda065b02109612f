"""One gang in the simulator, in which every event is one atomic step.

Who owns a band makes its pods: the leader, workers when it runs, and a new pod in the stead of each that is gone.

`steps` lists what may happen next: an action that `decide_gang` wants (alone, as if a crash followed), or something
that Slurm or a kubelet does. So every course of events is a walk, and decisions can be held against the phases of pods
and jobs on it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Self

from msgspec.structs import replace

from sunkpy.core.gang.actions import Bind, Cancel, Evict, Finish, GangAction, NoteJob, Submit
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.families import assemble_beside, identify
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.phases import GangState, is_over
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.objects import Pod
from tests.unit.core.gang.jobs import make_job
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.simulator import FITS, World
from tests.unit.core.gang.trio import WITH_BAND, band_labels

JOBS_AT_MOST = 2
PODS_AT_MOST = 6


class Event(enum.Enum):
    """What moves a gang, as far as it has a name. The kindly ones take nothing away."""

    BIND = "Bind"
    JOB_STARTED = "job started"
    JOB_RESUMED = "job resumed"
    EPILOG_ENDED = "epilog ended"
    CONTAINER_RUNS = "container runs"
    POD_CREATED = "pod created"


_KINDLY = (Event.JOB_RESUMED, Event.JOB_STARTED, Event.EPILOG_ENDED, Event.POD_CREATED, Event.CONTAINER_RUNS)


class Walk(World):
    """A gang somewhere on its course. Each step returns another walk."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        super().__init__()
        for pod in pods:
            self.add(pod)
        (self.id,) = self.units
        self._is_band = "example.com/band" in self.seen.pods[0].labels

    def identify(self, pod):
        return identify(pod, families=WITH_BAND)

    def assemble(self, id, pods, apart):
        return assemble_beside(id, pods, apart, families=WITH_BAND)

    def queued(self, number, request):
        """A job about which Slurm has not answered yet."""
        return make_job(id=number)

    @property
    def seen(self) -> Snapshot:
        return self.snapshot(self.id)

    def after(self, *happens: Callable[[Self], object]) -> Self:
        """Where it is when this has happened."""
        made = self.copy()
        for each in happens:
            each(made)
        return made

    @property
    def is_band(self) -> bool:
        return self._is_band and bool(self.pods)


Step = tuple[Event | None, Walk]
"""What happened (None: nothing that has a name), and the gang after it."""


def steps(walk: Walk) -> Iterator[Step]:
    yield from _our_steps(walk)
    yield from _slurms_steps(walk)
    yield from _kubelets_steps(walk)
    if walk.is_band and walk.seen.state is not GangState.DONE:  # what is made after that is another life
        yield from _owners_steps(walk)


def band_pod(role: str, index: int, number: int) -> Pod:
    pod = make_pod(f"{role}-{index}-{number}", uid=f"{role}-{index}-{number}")
    meta = replace(pod.metadata, labels=band_labels(role, index), creation_timestamp=f"{number:03}")
    return replace(pod, metadata=meta)


def settled(walk: Walk) -> Walk:
    """What becomes of it when from now on nothing is taken away: ours first, then what is ending ends."""
    walk.idle_s = 1000.0
    for _ in range(80):
        _forget(walk)
        before = walk.seen
        following = (after for _, after in _our_steps(walk) if after.seen != before)
        ending = _ending_steps(walk)
        kindly = (after for event, after in steps(walk) if event in _KINDLY and after.seen != before)
        after = next(following, None) or next(ending, None) or next(kindly, None)
        if after is None:
            return walk
        walk = after
    raise AssertionError(f"never comes to rest: {describe(walk.seen)}")


def running(walk: Walk) -> Walk:
    """The gang when all that it can have has come to run."""
    made = settled(walk)
    made.idle_s = 0.0
    return made


def _forget(walk: Walk) -> None:
    """The shell forgets jobs that are through, and an owner has not made many pods yet."""
    unit = walk.units[walk.id]
    unit.jobs = {n: job for n, job in unit.jobs.items() if not job.is_settled or n == unit.bound_to}
    if len(unit.jobs) == JOBS_AT_MOST:
        unit.jobs = {n: job for n, job in unit.jobs.items() if not job.is_settled}


def _ending_steps(walk: Walk) -> Iterator[Walk]:
    for job in walk.jobs:
        if "COMPLETING" in job.state:
            yield walk.after(lambda after, job=job: after.end_epilogs(job))
    if gone := [pod for pod in walk.pods.values() if pod.is_deleting]:
        yield walk.after(lambda after: after.remove(gone))


def describe(snapshot: Snapshot) -> str:
    pods = [(p.name, p.spec.node_name, p.status.phase, p.is_deleting) for p in snapshot.pods]
    return f"{snapshot.state} pods={pods} jobs={snapshot.jobs} bound_to={snapshot.bound_to} placed={snapshot.placed}"


def _our_steps(walk: Walk) -> Iterator[Step]:
    for action in decide_gang(walk.seen, walk.policy):
        done = walk.after(lambda after, action=action: after.apply(after.id, action)) if _counts(walk, action) else walk
        match action:
            case Bind(bindings=bindings):
                yield Event.BIND, done
                if len(bindings) > 1:  # the apiserver took one and no other
                    yield Event.BIND, walk.after(partial(_bind_half, action=action))
            case Finish(job=job) | Cancel(job=job):
                own = walk.units[walk.id].jobs[job]
                if isinstance(action, Finish) and own.signalled_at is None:
                    yield None, walk.after(lambda after, own=own: after.change(own, told_s_ago=1.0))
                yield from _ends(walk, own, "COMPLETED" if isinstance(action, Finish) else "CANCELLED")
            case _:
                if done is not walk:
                    yield None, done


def _counts(walk: Walk, action: GangAction) -> bool:
    """It makes a difference on this course."""
    return isinstance(action, Bind | NoteJob | Evict) or (isinstance(action, Submit) and len(walk.jobs) < JOBS_AT_MOST)


def _bind_half(walk: Walk, action: Bind) -> None:
    walk.units[walk.id].is_half_bound = True
    walk.apply(walk.id, replace(action, bindings=action.bindings[:1]))


def _slurms_steps(walk: Walk) -> Iterator[Step]:
    for job in walk.jobs:
        if job.is_settled:
            continue
        if "COMPLETING" in job.state:
            yield Event.EPILOG_ENDED, walk.after(lambda after, job=job: after.end_epilogs(job))
            continue
        if not job.state or "PENDING" in job.state:
            # Those that pods are on first: a job in the place of a lost one requires them.
            wanted = dict.fromkeys((*walk.seen.holding.values(), *FITS.eligible))
            nodes = tuple(wanted)[: max(len(walk.seen.pods), 1)]
            begun = {"state": frozenset({"RUNNING"}), "nodes": nodes, "prologs": nodes, "epilogs": ()}
            yield Event.JOB_STARTED, walk.after(lambda after, job=job, begun=begun: after.change(job, **begun))
        if "RUNNING" in job.state:
            yield None, walk.after(lambda after, job=job: after.suspend(job))
            yield None, walk.after(lambda after, job=job: after.requeue(job))
        if "SUSPENDED" in job.state:
            yield Event.JOB_RESUMED, walk.after(lambda after, job=job: after.resume(job))
        yield from _ends(walk, job, "PREEMPTED")
        yield None, walk.after(lambda after, job=job: after.lose(job))
        yield None, walk.after(lambda after, job=job: after.end(job, "NODE_FAIL"))


def _ends(walk: Walk, job: Job, how: str) -> Iterator[Step]:
    yield None, walk.after(lambda after: after.end(job, how))
    if job.nodes:
        yield None, walk.after(lambda after: after.end(job, how, epilogs=job.nodes, is_completing=True))


def _kubelets_steps(walk: Walk) -> Iterator[Step]:
    for pod in walk.pods.values():
        if pod.status.container_statuses:
            yield None, walk.after(lambda after, pod=pod: after.enter(pod, pod.status.phase))
        elif pod.spec.node_name and not pod.is_finished:
            yield Event.CONTAINER_RUNS, walk.after(lambda after, pod=pod: after.enter(pod, "Running", runs=True))
        if pod.spec.node_name and not pod.is_finished:
            for phase in ("Succeeded", "Failed"):
                yield None, walk.after(lambda after, pod=pod, phase=phase: after.enter(pod, phase))
        if not pod.spec.node_name and not pod.is_deleting:
            yield None, walk.after(lambda after, pod=pod: after.delete(pod))
        if walk.is_band and pod.is_deleting and len(walk.pods) > 1:
            yield None, walk.after(lambda after, pod=pod: after.remove([pod]))
    # An owner takes its pods back together; one that replaces single members is in `_owners_steps`.
    pods = walk.pods.values()
    if pods and all(is_over(pod) or not pod.spec.node_name for pod in pods):
        yield None, walk.after(lambda after: after.remove(list(after.pods.values())))


def _owners_steps(walk: Walk) -> Iterator[Step]:
    """A pod for each place that has none; workers only while the leader runs."""
    pods = walk.pods.values()
    number = 1 + max(int(pod.metadata.creation_timestamp) for pod in pods)
    for role, index in (("leader", 0), ("worker", 0), ("worker", 1)):
        own = [pod for pod in pods if pod.labels == band_labels(role, index) and not is_over(pod)]
        is_wanted = role == "leader" or any(
            pod.labels["example.com/role"] == "leader" and pod.status.container_statuses for pod in pods
        )
        if not own and is_wanted and (number < PODS_AT_MOST or walk.idle_s):
            yield Event.POD_CREATED, walk.after(partial(World.add, pod=band_pod(role, index, number)))
