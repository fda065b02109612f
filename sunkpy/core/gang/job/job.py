"""One placeholder job of a gang, as its leader knows it: what was asked for, what Slurm said last, and what hooks
reported.

The record of a gang and the snapshot of a decision hold the same objects. What becomes known makes another Job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.identity import REPLACEMENT, JobKind, kind_in
from sunkpy.core.gang.job.phases import HOLDING, LIVE, LOST, OVER, SETTLED, JobPhase
from sunkpy.core.gang.job.terms import AskedTerms, TermsChange, last_asked, spec_of
from sunkpy.core.model import states as slurm_states
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.layout import grouped
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId, SlurmJob

MISSING_OBSERVATIONS: Final = 2
"""After so many fresh answers of Slurm without the job, it is proved that Slurm does not know it."""

WAITS_FOR_PROLOG: Final = "Prolog"
"""Reason of a job whose prologs still run (man squeue, JOB REASON CODES)."""

_BEFORE_SCRIPT: Final = frozenset({"CONFIGURING", "POWER_UP_NODE", "STAGE_OUT"})
_NEVER: Final = float("-inf")


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A placeholder job. Times are of the leader's monotonic clock, in seconds.

    `slurm`: what Slurm said last; its state is empty until Slurm has reported it once, its nodes are until the job was
    read in full. `spec`: as it was submitted or changed last, else as Slurm has it; `turn`: how often it was changed;
    `refused`: another that Slurm would not have. `excluded`: the nodes that we ever had it exclude, if that is known.
    `prologs`, `epilogs`: the Slurm nodes whose hook has called for this job, and when. `missing`: how many fresh
    answers of Slurm, one after another, did not contain the job. `runs_again`: Slurm says that it runs since an epilog
    proved that it ended: slurmctld was killed and has forgotten the end. `is_unproved`: Slurm has it without what shows
    that the scheduler submitted it. `is_anothers`: the id is that of a job which is not this gang's, so nothing that
    Slurm says of the id counts. `known_at`: since when it is known; `read_at`: when it was last asked for in full;
    `as_of`: when the newest answer was asked for. `told_at`: when it last got the signal to end; `heard_at`: when Slurm
    first confirmed that. `cancelled_at`: Slurm has taken our order to end it, which its state may not show yet.
    """

    slurm: SlurmJob
    spec: JobSpec | None = None
    turn: int = 0
    refused: JobSpec | None = None
    prologs: Mapping[str, float] = {}
    epilogs: Mapping[str, float] = {}
    missing: int = 0
    runs_again: bool = False
    is_unproved: bool = False
    is_anothers: bool = False
    known_at: float = _NEVER
    read_at: float = _NEVER
    as_of: float = _NEVER
    told_at: float | None = None
    heard_at: float | None = None
    cancelled_at: float | None = None
    excluded: frozenset[str] | None = None

    @property
    def id(self) -> JobId:
        """The Slurm job id."""
        return self.slurm.id

    @property
    def state(self) -> frozenset[str]:
        """The flags of its state, as Slurm last reported them."""
        return self.slurm.state

    @property
    def nodes(self) -> tuple[str, ...]:
        """Its Slurm nodes, as Slurm last reported them."""
        return self.slurm.nodes

    # ------------------------------------------------------------- what becomes known

    def observed(self, state: frozenset[str] | None, *, asked_at: float) -> Job:
        """The job after an answer of Slurm. `state` is None if Slurm did not know the job. `asked_at`: when the
        question was sent.
        """
        is_same = bool(state) and state == self.slurm.state and not self.missing
        if is_same and not (state and "PENDING" in state and (self.prologs or self.epilogs or self.nodes)):
            # Nothing new: so with nearly all of tens of thousands in each poll.
            return self
        if self.is_anothers or asked_at < max(self.known_at, *self.prologs.values(), *self.epilogs.values(), 0.0):
            # The answer is not about this job, or it is older than what a hook has reported since.
            return self
        if state is None:
            return _with(self, missing=self.missing + 1)
        runs_again = bool(self.epilogs) and slurm_states.is_job_running(state)
        job = _with(self, slurm=_with(self.slurm, state=state), missing=0, runs_again=runs_again)
        return job._queued_again() if "PENDING" in state else job

    def _queued_again(self) -> Job:
        """The hooks of its first run are over, and so are its nodes once none of its epilogs runs."""
        job = _with(self, prologs={}, epilogs={})
        if "COMPLETING" in self.state:
            return job
        # A node may speak for the job again only after Slurm has given it to the job again.
        return _with(job, slurm=_with(self.slurm, nodes=(), layout=(), devices={}, capacity={}))

    def read(self, slurm: SlurmJob, *, at: float) -> Job:
        """The job after Slurm has described it in full, as it was at `at`; unchanged if something later is known."""
        if at < self.as_of:
            return self
        known = _with(
            self,
            slurm=_with(slurm, state=self.state),
            spec=self.spec or spec_of(slurm),
            excluded=frozenset(slurm.excluded_nodes) if self.excluded is None else self.excluded,
            is_unproved=False,
            is_anothers=False,
            read_at=at,
            as_of=at,
        )
        return known.observed(slurm.state, asked_at=at)

    def began(self, node: str, *, at: float) -> Job:
        """The prolog of a node has called."""
        return _with(self, prologs={**self.prologs, node: at}, epilogs=_without(self.epilogs, node))

    def ended(self, node: str, *, at: float) -> Job:
        """The epilog of a node has called."""
        return _with(self, prologs=_without(self.prologs, node), epilogs={**self.epilogs, node: at})

    def excluding(self, nodes: tuple[str, ...]) -> Job:
        """The job with these nodes excluded, and no others."""
        ours = (self.excluded or frozenset()) | (frozenset(nodes) - excluded_by_others(self))
        return _with(self, slurm=_with(self.slurm, excluded_nodes=nodes), excluded=ours)

    def changed(self, change: TermsChange) -> Job:
        """Slurm has taken a change of its terms."""
        refused = change.asked if change.fixed else None
        return _with(self, spec=change.to, refused=refused, turn=self.turn + 1)

    # ------------------------------------------------------------- what follows

    @property
    def asked(self) -> AskedTerms:
        """What the job asks for, as it is noted on pods."""
        return AskedTerms(job=self.id, turn=self.turn, terms=self.spec or JobSpec())

    @property
    def has_started(self) -> bool:
        """True if the job has or had nodes: no pass over it may wait for jobs that are only queued."""
        # An allocation has its nodes before anybody has read its state.
        is_known = self.is_allocation or bool(self.state)
        return bool(self.prologs or self.epilogs) or (is_known and not slurm_states.is_job_pending(self.state))

    @property
    def is_allocation(self) -> bool:
        """True if the job has no script."""
        return not self.slurm.is_batch

    @property
    def phase(self) -> JobPhase:
        """The phase of the job, from Slurm's last answer and what hooks reported."""
        state, is_forgotten = self.state, self.missing >= MISSING_OBSERVATIONS or self.is_anothers
        is_pending, is_completing = slurm_states.is_job_pending(state), slurm_states.is_job_completing(state)
        is_ended, is_suspended = slurm_states.is_job_ended(state), "SUSPENDED" in state
        if "NODE_FAIL" in state:
            return JobPhase.LOSING if is_completing and not is_forgotten else JobPhase.LOST
        if is_ended or is_completing or (self.epilogs and not is_pending):
            if is_forgotten or (is_ended and not is_completing):
                return JobPhase.ENDED
            return JobPhase.TAKEN_BACK if is_pending or is_suspended else JobPhase.ENDING
        if is_forgotten:
            return JobPhase.LOST
        if is_suspended:
            return JobPhase.SUSPENDED
        if is_pending and not self.prologs:
            return JobPhase.PENDING
        return JobPhase.RUNNING if state or self.prologs or self.missing else JobPhase.SUBMITTED

    @property
    def is_over(self) -> bool:
        """True if the job has ended or is ending: an epilog runs. False for a job that was lost or could
        not be read.
        """
        return self.phase in OVER

    @property
    def is_lost(self) -> bool:
        """True if the job ended although nobody wanted that: its node fell silent or was set DOWN, or Slurm has
        forgotten it.

        Forgotten: several answers did not contain it, or its id is another job's, and nobody reported its end.
        """
        return self.phase in LOST

    @property
    def is_live(self) -> bool:
        """True if the job holds resources or may get some, as far as is known."""
        return self.phase in LIVE

    @property
    def is_settled(self) -> bool:
        """True if the job needs no signal any more."""
        return self.phase in SETTLED

    @property
    def kind(self) -> JobKind | None:
        """How its slots were chosen (whole, named, shared, replacement), by its comment; None if that is not known."""
        return kind_in(self.spec.comment) if self.spec is not None else None

    @property
    def is_replacement(self) -> bool:
        """True if the job was made for the members that had nodes at that time: it has no slot for others."""
        return self.kind == REPLACEMENT

    @property
    def is_script_running(self) -> bool:
        """The prologs are through, and a script that there is can be signalled."""
        return slurm_states.is_job_running(self.state) and not self.state & _BEFORE_SCRIPT

    @property
    def is_ended_by_us(self) -> bool:
        """True if Slurm has accepted that the job is to end: its epilogs need no proof."""
        return self.cancelled_at is not None or self.heard_at is not None

    @property
    def is_let_go(self) -> bool:
        """True if the job got a signal to end or was cancelled: no more pods are bound under it."""
        return self.cancelled_at is not None or self.told_at is not None

    @property
    def start_nodes(self) -> tuple[str, ...]:
        """The nodes on which pods may start, in the job's order, once the job has started there; empty before."""
        if not self.is_live or self.phase is JobPhase.SUSPENDED or self.is_let_go:
            return ()
        # A prolog that waits at the gate has not asked for the pods yet, and they must not come before it does. When
        # all are through, those that nobody heard count too: another leader did, or the call was lost.
        if self.nodes and self.is_script_running and self.slurm.state_reason != WAITS_FOR_PROLOG:
            return self.nodes
        return tuple(node for node in self.nodes if node in self.prologs)


def excluded_by_others(job: Job) -> frozenset[str]:
    """The nodes that a person has excluded from the job."""
    return frozenset(job.slurm.excluded_nodes) - job.excluded if job.excluded is not None else frozenset()


def recall(job: Job, pods: Iterable[Pod]) -> Job:
    """The job with what an earlier leader has noted about it on the pods of the gang, as far as only Slurm's record is
    known.
    """
    if job.spec is None or not job.spec.by_slurm:
        return job
    asked = last_asked(job.id, job.spec, (pod.annotations.get(names.ANNOTATION_ASKED, "") for pod in pods))
    return job if asked is None else _with(job, spec=asked.terms, turn=asked.turn)


def is_news(job: Job, before: Job) -> bool:
    """True if a decision may differ from before Slurm said this."""
    known, was = ((each.state, each.missing, each.is_unproved, each.is_anothers, each.spec) for each in (job, before))
    return known != was or (job.slurm is not before.slurm and _what_counts(job.slurm) != _what_counts(before.slurm))


def along_switches(job: Job, path_of: Callable[[str], Sequence[str]]) -> Job:
    """The job with its nodes in an order in which nodes of one switch are neighbours. Ranks on them are then
    neighbours, too.
    """
    nodes, tasks = grouped(job.nodes, path_of), dict(job.slurm.layout)
    layout = tuple((node, tasks[node]) for node in grouped(tasks, path_of))
    return _with(job, slurm=_with(job.slurm, nodes=nodes, layout=layout))


def has_node(job: Job, slurm_node: str) -> bool:
    """True if the job keeps this node for pods that are bound there. A job that runs on may have given the node up, or
    never had it.
    """
    return job.phase in HOLDING and slurm_node in (job.nodes or (slurm_node,))


def _what_counts(slurm: SlurmJob) -> SlurmJob:
    """What of Slurm's word a decision looks at."""
    return _with(slurm, priority=0, scheduled_nodes=(), admin_comment="")


def _without(calls: Mapping[str, float], node: str) -> Mapping[str, float]:
    return {name: at for name, at in calls.items() if name != node} if node in calls else calls


_with = msgspec.structs.replace
