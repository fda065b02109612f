"""What is known of one gang at one moment: the input of `decide`, and the states that can be read from it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import msgspec

from sunkpy.core.gang.gang import Gang, solo_pod
from sunkpy.core.gang.identity import GangId, noted_job
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.job.phases import HOLDING, JobPhase
from sunkpy.core.gang.phases import GangState, is_over, is_running
from sunkpy.core.gang.seating.seating import Seating, seat
from sunkpy.core.gang.seating.slots import is_for_as_many
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId
from sunkpy.core.placement.eligibility import Eligibility

DEFAULT_GRACE_S = 30.0
"""The grace period in seconds that the apiserver sets if a pod does not say."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The node of a seat refused its member: why, since when, how often in a row, and when it is tried again. Times are
    of the leader's monotonic clock, in seconds.
    """

    why: str
    since: float
    times: int
    again_at: float


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A gang, its jobs and what the scheduler remembers of it.

    `gang` is None when all its pods are gone; `last_gang` is then what it was, if all of them had ended. `eligibility`
    holds for every member; None while Slurm's nodes are not known, and when members have nodes. `usable`: the nodes
    that all its pods may use by what lasts. `is_to_be_polled`: no event tells when it changes. `bound_to` is the job
    under which the members were bound, `placed` the Slurm node of each bound member by its uid: both from the
    scheduler's own knowledge, because the owner of a pod can write any annotation. `displaced`: Slurm nodes that other
    jobs were given while the job of the pods there was lost, with those jobs. `may_submit` is False until a failed or
    refused submit may be tried again, and while the gang may have a job that nobody knows. `waits_for`: in words, whom
    the owner has to get rid of first. `idle_s`: for so long a job has held nodes for the gang and no member has been
    there. `has_left_out`: a pod waits that has no seat, and soon becomes a gang of its own. `is_half_bound`: some
    members of the first wave could not be bound together with the others. `named_nodes`: the Slurm node that each
    member names, by uid, where they name different ones (`sunkpy.core.gang.seating.named_nodes`). `reserved`: uids of
    members for which claims for devices are reserved, as far as all their claims are known. `lost_devices`: by uid, why
    devices of a member that has its node are not its own any more. `refusals`: of members whose node refused them and
    that still wait for it, by uid. `now`: when this was, on the leader's monotonic clock, in seconds.
    """

    id: GangId
    gang: Gang | None
    last_gang: Gang | None = None
    jobs: tuple[Job, ...] = ()
    bound_to: JobId | None = None
    placed: dict[str, str] = {}
    displaced: dict[str, JobId] = {}
    eligibility: Eligibility | None = None
    usable: tuple[str, ...] = ()
    may_submit: bool = True
    refused: str = ""
    waits_for: str = ""
    idle_s: float = 0.0
    has_left_out: bool = False
    is_half_bound: bool = False
    is_to_be_polled: bool = False
    named_nodes: dict[str, str] = {}
    reserved: frozenset[str] = frozenset()
    lost_devices: dict[str, str] = {}
    refusals: dict[str, Refusal] = {}
    now: float = 0.0

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """The members that exist."""
        return self.gang.members if self.gang is not None else ()

    @property
    def is_several(self) -> bool:
        """True if the gang can have several pods, at once or one after another. False if it is that of one pod, whose
        uid it bears.
        """
        if self.gang is None:
            return False
        own = (self.id.uid, solo_pod(self.id))
        return self.gang.seats > 1 or any(pod.uid not in own for pod in self.pods)

    @cached_property
    def live_jobs(self) -> tuple[Job, ...]:
        """Jobs that hold or may come to hold resources: running first, then oldest first; last those that we end."""
        return tuple(
            sorted((j for j in self.jobs if j.is_live), key=lambda j: (j.is_let_go, j.phase is JobPhase.PENDING, j.id))
        )

    @cached_property
    def holding(self) -> dict[str, str]:
        """The Slurm node of each member that has a node and has not ended."""
        return {pod.uid: self.placed.get(pod.uid, "") for pod in self.pods if pod.spec.node_name and not is_over(pod)}

    @cached_property
    def staying(self) -> tuple[Pod, ...]:
        """Members that have a node and have not ended."""
        return tuple(pod for pod in self.pods if pod.uid in self.holding)

    @property
    def had_job(self) -> bool:
        """True if the pods have their nodes from Slurm, as far as is known. Otherwise somebody else put them there."""
        return self.bound_to is not None or any(noted_job(pod) is not None for pod in self.staying)

    @cached_property
    def is_bound(self) -> bool:
        """True if a member has a node, or had one that the job still holds for others."""
        job = self.bound_job if self.bound_to is not None else None
        is_held = job is not None and job.is_live and job.phase in HOLDING and not job.is_let_go
        return bool(self.holding) or (is_held and any(pod.spec.node_name for pod in self.pods))

    def seating(self, job: Job) -> Seating:
        """The seats of the pods under one of the jobs; worked out once."""
        if job.id not in self._seatings:
            gang = self.gang or Gang(id=self.id, roles=())
            self._seatings[job.id] = seat(gang, job, holding=self.holding, named_nodes=self.named_nodes)
        return self._seatings[job.id]

    @cached_property
    def _seatings(self) -> dict[JobId, Seating]:
        return {}

    def is_for(self, job: Job) -> bool:
        """The job has as many slots as the gang wants now, as far as Slurm has said."""
        if self.gang is None or not job.slurm.tasks:
            return True
        if self.named_nodes:
            return bool(self.gang.missing) or job.slurm.tasks == len(set(self.named_nodes.values()))
        return is_for_as_many(self.gang, job.slurm.tasks, job.kind)

    @cached_property
    def bound_job(self) -> Job | None:
        """The job under which the members were bound, if it is still known.

        When it is not known which one that was, an epilog proves it: its job had the node that a member is on.
        """
        if self.bound_to is not None:
            return next((job for job in self.jobs if job.id == self.bound_to), None)
        return next((job for job in self.jobs if job.epilogs.keys() & set(self.placed.values())), None)

    @property
    def state(self) -> GangState:
        """The state of the gang, as observed."""
        if all(is_over(pod) for pod in self.pods):
            is_done = not self.has_left_out and all(job.is_settled for job in self.jobs)
            return GangState.DONE if is_done else GangState.ENDING
        job = self.bound_job
        if self.is_bound and job is not None and job.phase not in HOLDING:
            return GangState.HANDING_OVER
        if self.is_bound:
            return GangState.RUNNING if any(is_running(pod) for pod in self.pods) else GangState.BOUND
        jobs = self.live_jobs
        if not jobs or jobs[0].is_let_go:
            return GangState.WAITING
        return GangState.STARTED if jobs[0].start_nodes else GangState.SUBMITTED


def explain_generation(other: GangId, jobs: Iterable[Job], pods: Iterable[Pod]) -> str:
    """What is left of another generation of the owner's pods, in words; empty if nothing is."""
    which = f"generation {other.generation or 'without number'} of {other} to end: "
    if job := next((job for job in jobs if not job.is_settled), None):
        return f"{which}Slurm job {job.id} is not over"
    if pod := next((pod for pod in pods if pod.spec.node_name and not is_over(pod)), None):
        return f"{which}pod {pod.name} is not gone"
    return ""


def grace_s(pod: Pod) -> float:
    """Seconds that the kubelet gives the pod's containers to end."""
    of_spec = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_S if of_spec is None else of_spec
