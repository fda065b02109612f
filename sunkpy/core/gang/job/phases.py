"""The phases of a job: derived, never stored, by `Job.phase`. What is asked of a job is a set of phases.

`docs/reference/phases.md` has the table, which `tools/make-reference` makes from here.
"""

from __future__ import annotations

from typing import Final

from sunkpy.core.gang.phases import Phase


class JobPhase(Phase):
    """Where a job is in its life."""

    SUBMITTED = ("submitted", "Slurm has not said anything about it yet")
    PENDING = ("pending", "it waits in the queue")
    RUNNING = ("running", "it has nodes: Slurm says so, or a prolog has called")
    SUSPENDED = ("suspended", "Slurm has stopped it, and may give its CPUs to others")
    TAKEN_BACK = ("taken back", "it has lost a node, and is queued again or suspended")
    ENDING = ("ending", "it has ended, or an epilog has called; epilogs still hold its nodes")
    ENDED = ("ended", "it has ended, or has lost a node and Slurm no longer knows it")
    LOSING = ("losing", "it ended because a node failed; epilogs still hold its other nodes")
    LOST = ("lost", "it ended because a node failed, or Slurm has forgotten it")


OVER: Final = frozenset({JobPhase.TAKEN_BACK, JobPhase.ENDING, JobPhase.ENDED})
LOST: Final = frozenset({JobPhase.LOSING, JobPhase.LOST})
LIVE: Final = frozenset(JobPhase) - OVER - LOST
SETTLED: Final = frozenset({JobPhase.ENDED, JobPhase.LOST})
STOPPED: Final = frozenset({JobPhase.PENDING, JobPhase.SUSPENDED, JobPhase.TAKEN_BACK})
HOLDING: Final = frozenset({JobPhase.SUBMITTED, JobPhase.RUNNING}) | LOST

JOB_PREDICATES: Final = {
    "is live": LIVE,
    "is over": OVER,
    "is lost": LOST,
    "is settled": SETTLED,
    "holds its node": HOLDING,
    "was stopped": STOPPED,
}
"""Groups of phases that code asks about. Each phase is live, over or lost. Settled: the job needs no signal any more.

A lost job holds its node for its pods, since nobody wanted it to end. One that was stopped after it had begun would run
no epilog for its pods, or start a second time without them.
"""
