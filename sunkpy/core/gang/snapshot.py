"""All that the scheduler knows of one gang at one moment. `decide_gang` reads it, and it derives the gang's state."""

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
"""The grace period in seconds of a pod whose spec has none: the apiserver's default."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The refusal of a member by the node of its seat: why, since when, how often in a row, and when the scheduler
    tries again. Times are seconds on the leader's monotonic clock.
    """

    why: str
    since: float
    times: int
    again_at: float


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A gang, its jobs and what the scheduler remembers of it.

    Args:
        gang: None once all its pods are gone.
        last_gang: the gang as it was when all its pods had ended, if `gang` is None.
        bound_to: the job under which the members were bound, from the scheduler's memory: anyone who owns a pod can
            write its annotations.
        placed: the Slurm node of each bound member, by uid; from the scheduler's memory, too.
        displaced: Slurm nodes of members that Slurm gave to other jobs while the members' own job was lost, with these
            jobs.
        eligibility: the nodes where every member may go; None while Slurm's nodes are unknown, or once members have
            nodes.
        usable: the nodes that all members may use, judged only by what does not change with other pods.
        may_submit: False until a failed or refused submit may be repeated, and while the gang may have an unknown job.
        refused: why Slurm refused the last submit.
        waits_for: which earlier pods of the owner have to end before this gang's job is submitted, in words.
        idle_s: for how many seconds a job has held nodes for the gang without any member.
        has_left_out: True if a pod without a seat waits, and soon becomes a gang of its own.
        is_half_bound: True if only some members of the first wave could be bound.
        is_to_be_polled: True if the gang must be looked at again later, because no event tells of a change.
        named_nodes: the Slurm node that each member names, by uid, if they name different ones
            (`sunkpy.core.gang.seating.named_nodes`).
        reserved: uids of members whose claims for devices are reserved, as far as all their claims are known.
        lost_devices: by uid, why a bound member no longer has its devices for itself.
        refusals: by uid, the refusal of each member that still waits for the node that refused it.
        now: the time of the snapshot, in seconds on the leader's monotonic clock.
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
        """The gang's members that exist."""
        return self.gang.members if self.gang is not None else ()

    @property
    def is_several(self) -> bool:
        """True if the gang can have several pods, at once or one after another. False if the gang is one pod alone."""
        if self.gang is None:
            return False
        own = (self.id.uid, solo_pod(self.id))
        return self.gang.seats > 1 or any(pod.uid not in own for pod in self.pods)

    @cached_property
    def live_jobs(self) -> tuple[Job, ...]:
        """The gang's jobs that hold or may get resources: running jobs first, then the oldest; last the jobs that
        sunkpy is ending.
        """
        return tuple(
            sorted((j for j in self.jobs if j.is_live), key=lambda j: (j.is_let_go, j.phase is JobPhase.PENDING, j.id))
        )

    @cached_property
    def holding(self) -> dict[str, str]:
        """The Slurm node of each member that has a node and has not ended, by uid; empty text where it is unknown."""
        return {pod.uid: self.placed.get(pod.uid, "") for pod in self.pods if pod.spec.node_name and not is_over(pod)}

    @cached_property
    def staying(self) -> tuple[Pod, ...]:
        """The members that have a node and have not ended."""
        return tuple(pod for pod in self.pods if pod.uid in self.holding)

    @property
    def had_job(self) -> bool:
        """True if members got their nodes from Slurm, as far as is known. False if somebody else bound them."""
        return self.bound_to is not None or any(noted_job(pod) is not None for pod in self.staying)

    @cached_property
    def is_bound(self) -> bool:
        """True if a member has a node, or had a node that the job still holds for other members."""
        job = self.bound_job if self.bound_to is not None else None
        is_held = job is not None and job.is_live and job.phase in HOLDING and not job.is_let_go
        return bool(self.holding) or (is_held and any(pod.spec.node_name for pod in self.pods))

    def seating(self, job: Job) -> Seating:
        """Return the seats of the members under one of the jobs. The result is cached."""
        if job.id not in self._seatings:
            gang = self.gang or Gang(id=self.id, roles=())
            self._seatings[job.id] = seat(gang, job, holding=self.holding, named_nodes=self.named_nodes)
        return self._seatings[job.id]

    @cached_property
    def _seatings(self) -> dict[JobId, Seating]:
        return {}

    def is_for(self, job: Job) -> bool:
        """True if the job has as many slots as the gang needs now, or Slurm has not reported its slots yet."""
        if self.gang is None or not job.slurm.tasks:
            return True
        if self.named_nodes:
            return bool(self.gang.missing) or job.slurm.tasks == len(set(self.named_nodes.values()))
        return is_for_as_many(self.gang, job.slurm.tasks, job.kind)

    @cached_property
    def bound_job(self) -> Job | None:
        """The job under which the members were bound; None if it is no longer known.

        If a new leader does not know which job that was, it takes the job that had an epilog on the node of a member.
        """
        if self.bound_to is not None:
            return next((job for job in self.jobs if job.id == self.bound_to), None)
        return next((job for job in self.jobs if job.epilogs.keys() & set(self.placed.values())), None)

    @property
    def state(self) -> GangState:
        """The state of the gang, derived from its pods and jobs."""
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
    """Say which pod or job of another generation of the owner's pods has not ended; empty if all have."""
    which = f"generation {other.generation or 'without number'} of {other} to end: "
    if job := next((job for job in jobs if not job.is_settled), None):
        return f"{which}Slurm job {job.id} is not over"
    if pod := next((pod for pod in pods if pod.spec.node_name and not is_over(pod)), None):
        return f"{which}pod {pod.name} is not gone"
    return ""


def grace_s(pod: Pod) -> float:
    """Return the grace period of the pod in seconds, as its spec says."""
    of_spec = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_S if of_spec is None else of_spec
