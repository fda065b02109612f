"""One placeholder job of a gang (it holds the nodes for the gang's pods), as the leading scheduler knows it: what was
asked for, what Slurm said last, and which Prologs and Epilogs have called.

A Job is immutable: each method that adds knowledge returns another Job. So the scheduler's record of the gang and a
snapshot of the gang can share the same Job.
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
"""The number of fresh answers of Slurm without the job that prove that Slurm does not know it."""

WAITS_FOR_PROLOG: Final = "Prolog"
"""The state reason of a job whose Prologs still run (man squeue, JOB REASON CODES)."""

_BEFORE_SCRIPT: Final = frozenset({"CONFIGURING", "POWER_UP_NODE", "STAGE_OUT"})
_NEVER: Final = float("-inf")


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A placeholder job: a Slurm job that holds nodes for the pods of a gang. Times are seconds on the monotonic clock
    of the leading scheduler.

    Args:
        slurm: the job as Slurm last reported it. Its state is empty until the first report, and its nodes are empty
            until the job was read in full.
        spec: the terms that were last submitted or changed; if sunkpy does not know these, the terms that Slurm
            reports.
        turn: how often sunkpy has changed the terms.
        refused: the last terms that Slurm refused, or that ask for a change of an option which cannot change.
        excluded: the nodes that sunkpy has ever excluded from the job, as far as is known; None if that is unknown.
            After a change of leader, all nodes that were excluded by then count as excluded by sunkpy.
        prologs: Slurm node → when its Prolog called for this job.
        epilogs: Slurm node → when its Epilog called for this job.
        missing: how many fresh answers of Slurm, one after another, did not contain the job.
        runs_again: Slurm reports the job as running after an Epilog proved its end: slurmctld was killed and has
            forgotten the end.
        is_unproved: Slurm's record of the job lacks the proof that the scheduler submitted it.
        is_anothers: the id belongs to another job now, so nothing that Slurm says of this id counts.
        known_at: since when the scheduler knows the job.
        read_at: when Slurm was last asked for the job in full.
        as_of: when Slurm was asked for the newest full description that is known.
        signalled_at: when the job was last sent the signal to end.
        signal_answered_at: when Slurm first answered the request to send that signal, even if it refused.
        cancelled_at: when Slurm accepted sunkpy's order to cancel the job, which the job's state may not show yet.
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
    signalled_at: float | None = None
    signal_answered_at: float | None = None
    cancelled_at: float | None = None
    excluded: frozenset[str] | None = None

    @property
    def id(self) -> JobId:
        """The Slurm job id."""
        return self.slurm.id

    @property
    def state(self) -> frozenset[str]:
        """The flags of the job's state, such as `RUNNING`, as Slurm last reported them."""
        return self.slurm.state

    @property
    def nodes(self) -> tuple[str, ...]:
        """The job's Slurm nodes, as Slurm last reported them."""
        return self.slurm.nodes

    # ------------------------------------------------------------- what becomes known

    def observed(self, state: frozenset[str] | None, *, asked_at: float) -> Job:
        """Return the job as it is known after Slurm has answered which state it has. `state` is None if Slurm did not
        know the job. `asked_at`: when the question was sent. An answer that is older than what is known changes
        nothing.
        """
        is_same = bool(state) and state == self.slurm.state and not self.missing
        if is_same and not (state and "PENDING" in state and (self.prologs or self.epilogs or self.nodes)):
            # A poll reports nothing new for nearly all of tens of thousands of jobs.
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
        """Return the job after Slurm has queued it again: the calls of its Prologs and Epilogs are forgotten. Its nodes
        are forgotten, too, but not while an Epilog of it still runs.
        """
        job = _with(self, prologs={}, epilogs={})
        if "COMPLETING" in self.state:
            return job
        # A node may speak for the job again only after Slurm has given it to the job again.
        return _with(job, slurm=_with(self.slurm, nodes=(), layout=(), devices={}, capacity={}))

    def read(self, slurm: SlurmJob, *, at: float) -> Job:
        """Return the job as it is known after Slurm has described it in full; `at` is when Slurm was asked. The job is
        unchanged if a later description is known.
        """
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
        """Return the job after the Prolog on a Slurm node has called for it at the time `at`."""
        return _with(self, prologs={**self.prologs, node: at}, epilogs=_without(self.epilogs, node))

    def ended(self, node: str, *, at: float) -> Job:
        """Return the job after the Epilog on a Slurm node has called for it at the time `at`."""
        return _with(self, prologs=_without(self.prologs, node), epilogs={**self.epilogs, node: at})

    def excluding(self, nodes: tuple[str, ...]) -> Job:
        """Return the job after Slurm has accepted `nodes` as the nodes that the job must not use."""
        ours = (self.excluded or frozenset()) | (frozenset(nodes) - excluded_by_others(self))
        return _with(self, slurm=_with(self.slurm, excluded_nodes=nodes), excluded=ours)

    def changed(self, change: TermsChange) -> Job:
        """Return the job after Slurm has accepted a change of its terms, such as its partition or time limit."""
        refused = change.asked if change.fixed else None
        return _with(self, spec=change.to, refused=refused, turn=self.turn + 1)

    # ------------------------------------------------------------- what follows

    @property
    def asked(self) -> AskedTerms:
        """The terms that Slurm was last asked to give the job, in the form in which they are noted on its pods."""
        return AskedTerms(job=self.id, turn=self.turn, terms=self.spec or JobSpec())

    @property
    def has_started(self) -> bool:
        """True if the job has nodes or had nodes, as far as is known. The scheduler reads such jobs from Slurm before
        jobs that still wait in the queue.
        """
        # An allocation has its nodes before anybody has read its state.
        is_known = self.is_allocation or bool(self.state)
        return bool(self.prologs or self.epilogs) or (is_known and not slurm_states.is_job_pending(self.state))

    @property
    def is_allocation(self) -> bool:
        """True if the job is an allocation: it has no script, and Slurm started it at once or refused it."""
        return not self.slurm.is_batch

    @property
    def phase(self) -> JobPhase:
        """The phase in the life of the job, such as pending or running, derived from what is known of the job."""
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
        """True if the job has ended, is ending (an Epilog of it runs), or has lost a node and was requeued or
        suspended. False for a job that was lost (its node failed, or Slurm forgot it) or that could not be read.
        """
        return self.phase in OVER

    @property
    def is_lost(self) -> bool:
        """True if the job ended although nobody ended it: its node failed, or Slurm has forgotten the job.

        Slurm has forgotten a job if several of its answers did not contain the job, or the job's id now belongs to
        another job. This does not count if Slurm has reported the job's end, or an Epilog of it has called.
        """
        return self.phase in LOST

    @property
    def is_live(self) -> bool:
        """True if the job holds nodes or may still get some, as far as is known: it was submitted and has neither ended
        nor been lost.
        """
        return self.phase in LIVE

    @property
    def is_settled(self) -> bool:
        """True if nothing more has to be done to end the job: it has ended, or Slurm has lost it for good."""
        return self.phase in SETTLED

    @property
    def kind(self) -> JobKind | None:
        """How the slots (tasks) of the job were chosen for the pods of the gang, as its comment says: whole, named,
        shared or replacement. None if the comment says nothing, or is not known.
        """
        return kind_in(self.spec.comment) if self.spec is not None else None

    @property
    def is_replacement(self) -> bool:
        """True if the job was made only for the pods that had nodes when their job was lost. False also for a
        replacement that has a slot for each seat of the gang: its kind is `whole`.
        """
        return self.kind == REPLACEMENT

    @property
    def is_script_running(self) -> bool:
        """True if Slurm says that the job runs and is past its configuration. Then its Prologs have ended on all nodes,
        unless its state reason is `Prolog`. If the job has a script, the script runs and can get a signal.
        """
        return slurm_states.is_job_running(self.state) and not self.state & _BEFORE_SCRIPT

    @property
    def is_ended_by_us(self) -> bool:
        """True if Slurm has answered sunkpy's signal to end the job, or has accepted sunkpy's order to cancel it. When
        an Epilog then calls, no further proof is needed that the job ends.
        """
        return self.cancelled_at is not None or self.signal_answered_at is not None

    @property
    def is_let_go(self) -> bool:
        """True if sunkpy has begun to end the job: it has sent the signal to end, or Slurm has accepted a cancellation.
        No more pods are bound under such a job.
        """
        return self.cancelled_at is not None or self.signalled_at is not None

    @property
    def start_nodes(self) -> tuple[str, ...]:
        """The nodes of the job on which its pods may start, in the job's order. A node is among them once its Prolog
        has called, or once all Prologs of the job have ended. Empty if the job has ended or was lost, is suspended, or
        is being ended by sunkpy.
        """
        if not self.is_live or self.phase is JobPhase.SUSPENDED or self.is_let_go:
            return ()
        # A Prolog that waits at the gate has not asked for its pods yet, and they must not start before it does. Once
        # the script runs, all Prologs have ended, also those whose call went to another leader or was lost.
        if self.nodes and self.is_script_running and self.slurm.state_reason != WAITS_FOR_PROLOG:
            return self.nodes
        return tuple(node for node in self.nodes if node in self.prologs)

    @property
    def is_ready(self) -> bool:
        """True if the job has nodes, and pods may start on all of them."""
        return bool(self.nodes) and self.start_nodes == self.nodes


def excluded_by_others(job: Job) -> frozenset[str]:
    """Return the job's excluded nodes that a person has excluded, not sunkpy. Empty if it is unknown which nodes sunkpy
    has excluded.
    """
    return frozenset(job.slurm.excluded_nodes) - job.excluded if job.excluded is not None else frozenset()


def recall(job: Job, pods: Iterable[Pod]) -> Job:
    """Return the job with the terms that an earlier leader noted on the gang's pods. It is unchanged if sunkpy knows
    what it last asked for, or if no note can be read.
    """
    if job.spec is None or not job.spec.by_slurm:
        return job
    asked = last_asked(job.id, job.spec, (pod.annotations.get(names.ANNOTATION_ASKED, "") for pod in pods))
    return job if asked is None else _with(job, spec=asked.terms, turn=asked.turn)


def is_news(job: Job, before: Job) -> bool:
    """True if `job` differs from `before`, an older version of the same job, in something on which a decision about the
    gang may depend.
    """
    known, was = ((each.state, each.missing, each.is_unproved, each.is_anothers, each.spec) for each in (job, before))
    return known != was or (job.slurm is not before.slurm and _what_counts(job.slurm) != _what_counts(before.slurm))


def along_switches(job: Job, path_of: Callable[[str], Sequence[str]]) -> Job:
    """Return the job with its nodes ordered so that nodes of one switch are neighbours: then pods with neighbouring
    ranks are close. `path_of` returns the switches above a node.
    """
    nodes, tasks = grouped(job.nodes, path_of), dict(job.slurm.layout)
    layout = tuple((node, tasks[node]) for node in grouped(tasks, path_of))
    return _with(job, slurm=_with(job.slurm, nodes=nodes, layout=layout))


def has_node(job: Job, slurm_node: str) -> bool:
    """True if the job holds this Slurm node for pods that are bound there. Also true if it holds nodes and Slurm has
    not said which. A running job may have given the node up: then it is false.
    """
    return job.phase in HOLDING and slurm_node in (job.nodes or (slurm_node,))


def _what_counts(slurm: SlurmJob) -> SlurmJob:
    """Return Slurm's record of a job without the fields that decisions do not read, such as its priority."""
    return _with(slurm, priority=0, scheduled_nodes=(), admin_comment="")


def _without(calls: Mapping[str, float], node: str) -> Mapping[str, float]:
    return {name: at for name, at in calls.items() if name != node} if node in calls else calls


_with = msgspec.structs.replace
