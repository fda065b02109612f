"""A snapshot: all that the scheduler knows of one gang at one moment. `decide_gang` decides from the snapshot, and the
snapshot derives the state of the gang.
"""

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
    """The refusal of a pod by the node to which it was to be bound: why the node refuses the pod, since when, how often
    in a row, and when the scheduler tries again. Times are seconds on the monotonic clock of the leading scheduler.
    """

    why: str
    since: float
    times: int
    again_at: float


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A gang, its jobs, and what the scheduler remembers of the gang, at one moment.

    Args:
        gang: None once all pods of the gang are gone.
        last_gang: if `gang` is None: the gang as it was last seen, with its pods as they had ended; None if not all of
            them had ended before they were deleted.
        jobs: the placeholder jobs of the gang that the scheduler knows: Slurm jobs that hold nodes for its pods.
        bound_to: the job under which the pods were bound, as the scheduler remembers it; an annotation of a pod alone
            does not count, because anyone who may edit the pod can forge it.
        placed: by pod uid, the Slurm node whose slurmd pod is on the Kubernetes node of each bound pod; empty text if
            there is none.
        displaced: Slurm node of the gang's pods → the other job to which Slurm gave this node after the pods' own job
            was lost.
        eligibility: the Slurm nodes on which the gang's job may run; None while they are not known, for example before
            Slurm's nodes were read, and once a job has nodes for the gang.
        usable: the Slurm nodes that all pods may use, judged only by what does not change with other pods.
        may_submit: False until a failed or refused submit may be repeated, while Slurm may have a job of the gang that
            the scheduler does not know, while the gang's namespace is unknown, and while a ResourceClaim of its pods
            does not exist.
        refused: why no job may be submitted now; mostly, why Slurm refused the last submit. Empty if that is not known.
        waits_for: in words, which job or pod of another generation of the gang (made before or after a restart) has to
            end before this gang's job is submitted.
        idle_s: for how many seconds a job has held all its nodes for the gang without any pod on them. A Prolog that
            still runs, maybe because it waits for pods of others, does not count.
        has_left_out: True if a pod for which the gang has no seat waits, and soon becomes a gang of its own.
        is_half_bound: True if only some of the pods could be bound that were to be bound together when the job started.
        is_to_be_polled: True if the scheduler must look at the gang again after a pause, because no event reports the
            change for which the gang waits.
        named_nodes: by pod uid, the Slurm node that each pod demands, if the pods demand different ones
            (`sunkpy.core.gang.seating.named_nodes`); empty text if it is no Slurm node.
        reserved: uids of the pods for which a ResourceClaim is reserved; a pod is left out if one of its claims is
            unknown.
        lost_devices: by pod uid, why a bound pod no longer has its devices for itself.
        refusals: by pod uid, the refusal of each pod that still waits for the node that refused it.
        now: the time of the snapshot, in seconds on the monotonic clock of the leading scheduler.
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
        """The pods of the gang that exist; empty once all are gone."""
        return self.gang.members if self.gang is not None else ()

    @property
    def is_several(self) -> bool:
        """True if the gang can have several pods, at once or one after another. False if it is one pod alone, or if all
        its pods are gone.
        """
        if self.gang is None:
            return False
        own = (self.id.uid, solo_pod(self.id))
        return self.gang.seats > 1 or any(pod.uid not in own for pod in self.pods)

    @cached_property
    def live_jobs(self) -> tuple[Job, ...]:
        """The gang's jobs that hold nodes or may still get some. First come the jobs that do not wait in Slurm's queue,
        then the pending ones, and last the jobs that sunkpy is ending. Within each group the lowest job id comes first.
        """
        return tuple(
            sorted((j for j in self.jobs if j.is_live), key=lambda j: (j.is_let_go, j.phase is JobPhase.PENDING, j.id))
        )

    @cached_property
    def holding(self) -> dict[str, str]:
        """The Slurm node of each pod that has a node and has not ended, by pod uid; the text is empty if the Slurm node
        is unknown.
        """
        return {pod.uid: self.placed.get(pod.uid, "") for pod in self.pods if pod.spec.node_name and not is_over(pod)}

    @cached_property
    def staying(self) -> tuple[Pod, ...]:
        """The pods of the gang that have a node and have not ended."""
        return tuple(pod for pod in self.pods if pod.uid in self.holding)

    @property
    def had_job(self) -> bool:
        """True if pods of the gang were bound under a Slurm job, as far as is known. False if somebody else put them on
        their nodes, without Slurm.
        """
        return self.bound_to is not None or any(noted_job(pod) is not None for pod in self.staying)

    @cached_property
    def is_bound(self) -> bool:
        """True if a pod of the gang is on a node and has not ended. Also true if all pods on nodes have ended, but
        their job still holds the nodes for the gang's other pods.
        """
        job = self.bound_job if self.bound_to is not None else None
        is_held = job is not None and job.is_live and job.phase in HOLDING and not job.is_let_go
        return bool(self.holding) or (is_held and any(pod.spec.node_name for pod in self.pods))

    def seating(self, job: Job) -> Seating:
        """Return which pod of the gang has which seat (its room in the job), and on which node, under `job`. The result
        is cached.
        """
        if job.id not in self._seatings:
            gang = self.gang or Gang(id=self.id, roles=())
            self._seatings[job.id] = seat(gang, job, holding=self.holding, named_nodes=self.named_nodes)
        return self._seatings[job.id]

    @cached_property
    def _seatings(self) -> dict[JobId, Seating]:
        return {}

    def is_for(self, job: Job) -> bool:
        """True if the job has as many slots (Slurm tasks) as the gang needs now. If the pods name different nodes, the
        gang needs a slot for each node. Also true while Slurm has not reported the job's slots, if the gang has no pods
        any more, or if its pods name nodes and some pods are missing.
        """
        if self.gang is None or not job.slurm.tasks:
            return True
        if self.named_nodes:
            return bool(self.gang.missing) or job.slurm.tasks == len(set(self.named_nodes.values()))
        return is_for_as_many(self.gang, job.slurm.tasks, job.kind)

    @cached_property
    def bound_job(self) -> Job | None:
        """The job under which the gang's pods were bound; None if that job is no longer known.

        A new leader may not know which job it was. Then the job counts whose Epilog has called from a node of the
        gang's pods, if there is one.
        """
        if self.bound_to is not None:
            return next((job for job in self.jobs if job.id == self.bound_to), None)
        return next((job for job in self.jobs if job.epilogs.keys() & set(self.placed.values())), None)

    @property
    def state(self) -> GangState:
        """The state of the gang now, derived from its pods and jobs."""
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
    """Say which job or bound pod of another generation of the gang has not ended; empty if all have. A generation is
    all pods that the owner made for one start of the gang; a restart makes the next one.
    """
    which = f"generation {other.generation or 'without number'} of {other} to end: "
    if job := next((job for job in jobs if not job.is_settled), None):
        return f"{which}Slurm job {job.id} is not over"
    if pod := next((pod for pod in pods if pod.spec.node_name and not is_over(pod)), None):
        return f"{which}pod {pod.name} is not gone"
    return ""


def grace_s(pod: Pod) -> float:
    """Return the grace period of the pod in seconds, as its spec says; 30, the default of Kubernetes, if the spec has
    none.
    """
    of_spec = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_S if of_spec is None else of_spec
