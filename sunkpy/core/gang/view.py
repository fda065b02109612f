"""What is known of one gang at one moment: the input of `decide`, and the states that can be read from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from sunkpy.core.gang.gang import Gang, extra_pod
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.lifecycle import State
from sunkpy.core.gang.places import Seat, assign, find_places
from sunkpy.core.gang.slots import Place, may_have_asked, plan_slots
from sunkpy.core.gang.terms import Terms
from sunkpy.core.model import states as slurm_states
from sunkpy.core.model.gres import Indices
from sunkpy.core.model.layout import Layout, grouped, spread
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.room import Room
from sunkpy.core.model.states import JobId
from sunkpy.core.placement.eligibility import Eligibility

DEFAULT_GRACE_S = 30.0
"""What the apiserver gives a pod that does not say."""

MISSING_OBSERVATIONS = 2
"""So many fresh answers of Slurm without the job prove that it does not know it."""

WAITS_FOR_PROLOG = "Prolog"
"""Reason of a job whose prologs still run (man squeue, JOB REASON CODES)."""

_BEFORE_SCRIPT = frozenset({"CONFIGURING", "POWER_UP_NODE", "STAGE_OUT"})


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A placeholder job. `state` is empty until Slurm has told it once.

    `tasks` is how many slots it asked for, of `cpus_per_task` each, `layout` how they lie on its nodes, `devices` which
    GRES it has there and `room` how much of all: 0 and empty where Slurm did not say. `terms` are those that it waits
    on, None until they are known; `refused_terms` others that Slurm would not have.
    `prologs` and `epilogs` are the Slurm nodes whose hook has called for this job; `missing` counts fresh answers of
    Slurm, one after another, that did not contain the job. `is_cancelled`: Slurm has taken our order to end it, and its
    state may not show it yet. `is_allocation`: it has no script. `is_unproved`: Slurm has it without what shows that
    the scheduler submitted it. `runs_again`: Slurm has said so since an epilog proved that it ended.
    """

    id: JobId
    state: frozenset[str] = frozenset()
    reason: str = ""
    nodes: tuple[str, ...] = ()
    tasks: int = 0
    cpus_per_task: int = 0
    layout: Layout = ()
    devices: dict[str, Indices] = {}
    room: dict[str, Room] = {}
    excluded: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    terms: Terms | None = None
    refused_terms: Terms | None = None
    prologs: frozenset[str] = frozenset()
    epilogs: frozenset[str] = frozenset()
    missing: int = 0
    told_s_ago: float | None = None
    is_cancelled: bool = False
    is_allocation: bool = False
    is_unproved: bool = False
    runs_again: bool = False

    @property
    def is_lost(self) -> bool:
        """It ended without anybody wanting it: its node fell silent or was set DOWN, or Slurm has forgotten it.

        Forgotten means that several answers did not contain it, and nothing told of its end.
        """
        return self.has_failed_node or (self._is_gone and not self.is_over)

    @property
    def has_failed_node(self) -> bool:
        """Slurm gave it up together with its node. That says nothing about the pods there."""
        return "NODE_FAIL" in self.state

    @property
    def is_over(self) -> bool:
        """It has ended, or ends now: an epilog runs. Never true for a job that was lost or only could not be read."""
        if self.has_failed_node:
            return False
        if self.epilogs and not slurm_states.is_job_pending(self.state):
            return True
        return slurm_states.is_job_ended(self.state) or slurm_states.is_job_completing(self.state)

    @property
    def is_settled(self) -> bool:
        """Nothing is left to be told to it."""
        ended = slurm_states.is_job_ended(self.state) and not slurm_states.is_job_completing(self.state)
        return ended or self._is_gone

    @property
    def _is_gone(self) -> bool:
        return self.missing >= MISSING_OBSERVATIONS

    @property
    def is_live(self) -> bool:
        """It holds or may come to hold resources, as far as is known."""
        return not self.is_over and not self.is_lost

    @property
    def is_suspended(self) -> bool:
        """Slurm has stopped it and may give its CPUs to others."""
        return "SUSPENDED" in self.state

    @property
    def is_pending(self) -> bool:
        """In the queue, for the first time or again."""
        return slurm_states.is_job_pending(self.state) and not self.prologs

    @property
    def may_wait(self) -> bool:
        """In the queue, unless Slurm or one of its nodes has told otherwise."""
        return self.is_pending or not (self.state or self.prologs or self.missing)

    def rooms(self, layout: Layout) -> dict[str, Room]:
        """What it has of each node: by Slurm's word, and before that at least the cpus that it asked for."""
        return {node: self.room.get(node) or Room(cpus=count * self.cpus_per_task) for node, count in layout}

    @property
    def is_script_running(self) -> bool:
        """The prologs are through, and a script that there is can be signalled."""
        return slurm_states.is_job_running(self.state) and not self.state & _BEFORE_SCRIPT

    @property
    def is_let_go(self) -> bool:
        """We have told it to end, one way or the other: no pod comes to it any more."""
        return self.is_cancelled or self.told_s_ago is not None

    @property
    def start_nodes(self) -> tuple[str, ...]:
        """The nodes on which pods may come, in the job's order, once it has started there; empty before."""
        if not self.is_live or self.is_suspended or self.is_let_go:
            return ()
        # A prolog that waits at the gate has not asked for the pods yet, and they must not come before it does. When
        # all are through, those that nobody heard count too: another leader did, or the call was lost.
        if self.nodes and self.is_script_running and self.reason != WAITS_FOR_PROLOG:
            return self.nodes
        return tuple(node for node in self.nodes or sorted(self.prologs) if node in self.prologs)


class GangView(msgspec.Struct, frozen=True, kw_only=True):
    """A gang, its jobs and what the scheduler remembers of it.

    `gang` is None when all its pods are gone. `eligibility` holds for every member; None while Slurm's nodes are not
    known, and when members have nodes. `is_fickle`: it changes with pods of others, of which nobody tells. `bound_to`
    is the job under which the members were bound, `placed` the Slurm node of each bound member by its uid: both from
    the scheduler's own knowledge, for the owner of a pod can write any annotation.
    `displaced`: Slurm nodes that other jobs were given while the job of the pods there was lost, with those jobs.
    `may_submit` is False until a failed or refused submit may be tried again, and while the gang may have a job that
    nobody knows. `waits_for`: in words, whom the owner has to get rid of first. `idle_s`: for so long a job has held
    nodes for the gang and no member has been there. `is_half_bound`: some members of the first wave could not be bound
    together with the others. `pins`: the Slurm node that each member names, by uid, where they name different ones
    (`sunkpy.core.gang.pins`).
    """

    id: GangId
    gang: Gang | None
    jobs: tuple[JobView, ...] = ()
    bound_to: JobId | None = None
    placed: dict[str, str] = {}
    displaced: dict[str, JobId] = {}
    eligibility: Eligibility | None = None
    may_submit: bool = True
    refused: str = ""
    waits_for: str = ""
    idle_s: float = 0.0
    is_half_bound: bool = False
    is_fickle: bool = False
    pins: dict[str, str] = {}

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The members that are there."""
        return self.gang.members if self.gang is not None else ()

    @property
    def is_several(self) -> bool:
        """It can have several pods, at once or one after another: it is not that of one pod, whose uid it bears."""
        if self.gang is None:
            return False
        own = (self.id.uid, extra_pod(self.id))
        return self.gang.places > 1 or any(pod.uid not in own for pod in self.pods)

    @property
    def live_jobs(self) -> tuple[JobView, ...]:
        """Jobs that hold or may come to hold resources: running first, then oldest first; last those that we end."""
        return tuple(sorted((j for j in self.jobs if j.is_live), key=lambda j: (j.is_let_go, j.is_pending, j.id)))

    @property
    def holding(self) -> dict[str, str]:
        """The Slurm node of each member that has a node and has not ended."""
        return {pod.uid: self.placed.get(pod.uid, "") for pod in self.pods if pod.spec.node_name and not is_over(pod)}

    @property
    def is_bound(self) -> bool:
        """Some member has a node, or had one that the job holds on for others."""
        return bool(self.holding) or self._is_kept

    @property
    def _is_kept(self) -> bool:
        job = self.bound_job if self.bound_to is not None else None
        had_nodes = any(pod.spec.node_name for pod in self.pods)
        return had_nodes and job is not None and not job.is_lost and holds_its_node(job) and not job.is_let_go

    def seats(self, job: JobView) -> dict[str, Seat]:
        """Where the members are or go under this job, by uid."""
        if self.gang is None:
            return {}
        layout, holding = self._lies(self.gang, job)
        seats = assign(self.gang, layout, job.rooms(layout), holding=holding)
        if not self.covers_only(job):
            return seats
        holding = self.holding
        return {uid: seat for uid, seat in seats.items() if uid in holding}

    def places(self, job: JobView) -> dict[Place, str]:
        """The node of each place under this job; empty where it has none."""
        if self.gang is None:
            return {}
        layout, holding = self._lies(self.gang, job)
        return find_places(self.gang, layout, job.rooms(layout), holding=holding)

    def may_be_for(self, job: JobView) -> bool:
        """The job has the slots that the gang wants now, as far as Slurm has told."""
        if self.gang is None or not job.tasks:
            return True
        layout, _ = self._lies(self.gang, job)
        return may_have_asked(self.gang, job.tasks, layout, job.rooms(layout))

    def _lies(self, gang: Gang, job: JobView) -> tuple[Layout, dict[str, str]]:
        """How the job lies on its nodes, and which of them members have, or name."""
        is_told = bool(job.layout) and {node for node, _ in job.layout} == set(job.nodes)
        nodes = job.nodes or job.start_nodes
        tasks = job.tasks or plan_slots(gang).count
        holding = {uid: node for uid, node in self._pinned.items() if node in nodes} | self.holding
        return (job.layout if is_told else spread(nodes, tasks)), holding

    def is_cover(self, job: JobView) -> bool:
        """The job was made for nodes that members had already."""
        return bool(job.required) and set(job.required) != set(self.pins.values())

    def covers_only(self, job: JobView) -> bool:
        """The job was made for the members that had nodes then: others have no room there.

        Of a gang whose size nobody can tell it is not known.
        """
        return self.is_cover(job) and (self.gang is None or (self.gang.is_sized and job.tasks != self.gang.places))

    @property
    def _pinned(self) -> dict[str, str]:
        """The pins of members that wait: to each its node, as if it were there."""
        waiting = (pod for pod in self.pods if not (pod.spec.node_name or pod.is_deleting or pod.is_finished))
        return {pod.uid: self.pins[pod.uid] for pod in waiting if pod.uid in self.pins}

    def has_started(self, job: JobView) -> bool:
        """The job has begun on all its nodes; while it is not known which they are, on as many as it may have."""
        if not job.start_nodes or self.gang is None:
            return False
        if not job.nodes:
            return len(job.start_nodes) >= (len(set(self.pins.values())) or plan_slots(self.gang).count)
        return len(job.start_nodes) >= len(job.nodes)

    @property
    def bound_job(self) -> JobView | None:
        """The job under which the members were bound, if it is still known.

        When it is not known which one that was, an epilog proves it: its job had the node that a member is on.
        """
        if self.bound_to is not None:
            return next((job for job in self.jobs if job.id == self.bound_to), None)
        return next((job for job in self.jobs if job.epilogs & set(self.placed.values())), None)

    @property
    def state(self) -> State:
        """Where the gang is, as observed."""
        if all(is_over(pod) for pod in self.pods):
            return State.DONE if all(job.is_settled for job in self.jobs) else State.ENDING
        if self.is_bound:
            return self._state_when_bound()
        jobs = self.live_jobs
        if not jobs or jobs[0].is_let_go:
            return State.WAITING
        return State.STARTED if jobs[0].start_nodes else State.SUBMITTED

    def _state_when_bound(self) -> State:
        job = self.bound_job
        if job is not None and not job.is_lost and not holds_its_node(job):
            return State.HANDING_OVER
        return State.RUNNING if any(is_running(pod) for pod in self.pods) else State.BOUND


def along_switches(job: JobView, switch_of: Callable[[str], str]) -> JobView:
    """The job with its nodes in an order in which those of one switch are neighbours, and so are ranks on them."""
    nodes, tasks = grouped(job.nodes, switch_of), dict(job.layout)
    layout = tuple((node, tasks[node]) for node in grouped(tasks, switch_of))
    return msgspec.structs.replace(job, nodes=nodes, layout=layout)


def explain_generation(other: GangId, jobs: Iterable[JobView], pods: Iterable[Pod]) -> str:
    """What is left of another generation of the owner's pods, in words; empty when it is over."""
    which = f"generation {other.generation or 'without number'} of {other} to end: "
    if job := next((job for job in jobs if not job.is_settled), None):
        return f"{which}Slurm job {job.id} is not over"
    if pod := next((pod for pod in pods if pod.spec.node_name and not is_over(pod)), None):
        return f"{which}pod {pod.name} is not gone"
    return ""


def holds_its_node(job: JobView) -> bool:
    """The job keeps its node for pods that are bound: it neither ended, nor was suspended or queued again."""
    return not job.is_over and not job.is_suspended and not job.is_pending


def has_node(job: JobView, slurm_node: str) -> bool:
    """The job keeps this node for pods that are bound there: one that runs on may have given it up, or never had it."""
    return holds_its_node(job) and slurm_node in (job.nodes or (slurm_node,))


def is_running(pod: Pod) -> bool:
    """A container of the pod runs."""
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return any(status.state.running is not None for status in statuses)


def is_over(pod: Pod) -> bool:
    """The pod holds nothing any more: it finished and no container is left running."""
    return pod.is_finished and not is_running(pod)


def grace_s(pod: Pod) -> float:
    """Seconds that the kubelet gives the pod's containers to end."""
    of_spec = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_S if of_spec is None else of_spec


def has_left_node(pod: Pod) -> bool:
    """Nothing of the pod is left on its node: stricter than `is_over` for a pod that is being deleted.

    The kubelet reports the containers' end first, then frees sandbox, cgroups and volumes, and last deletes the object
    with grace period 0. Only a finalizer of somebody else can keep the object after that.
    """
    if not is_over(pod):
        return False
    meta = pod.metadata
    return not pod.is_deleting or (meta.deletion_grace_period_seconds == 0 and bool(meta.finalizers))
