"""The phases in the life of a placeholder job, which is a Slurm job that holds nodes for pods. They are never stored:
`Job.phase` derives them. Each question about a job, such as whether it holds its nodes, is a set of phases in which the
answer is yes.

`tools/make-reference` makes the table in `docs/reference/phases.md` from this module.
"""

from __future__ import annotations

from typing import Final

from sunkpy.core.gang.phases import Phase


class JobPhase(Phase):
    """The phases in the life of a Slurm job that holds nodes for pods, as sunkpy tells them apart."""

    SUBMITTED = ("submitted", "the job was submitted, and Slurm has not reported it yet")
    PENDING = ("pending", "the job waits in Slurm's queue")
    RUNNING = ("running", "the job has nodes: Slurm says so, or a prolog of it has called")
    SUSPENDED = ("suspended", "Slurm has stopped the job's processes, and may give its CPUs to other jobs")
    TAKEN_BACK = ("taken back", "the job has lost a node, and Slurm has requeued or suspended it")
    ENDING = ("ending", "the job has ended or an epilog of it has called, and epilogs still hold its nodes")
    ENDED = ("ended", "the job has ended, or it has lost a node and Slurm no longer knows the job")
    LOSING = ("losing", "the job ended because a node failed, and epilogs still hold its other nodes")
    LOST = ("lost", "the job ended because a node failed, or Slurm has forgotten the job")


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
"""The questions that are asked about jobs, each with the phases for which the answer is yes. Each phase is live, over
or lost. Settled: nothing more has to be done to end the job.

A lost job holds its node for its pods, since nobody wanted it to end. A job that was stopped after it had begun is
cancelled: it would run no Epilog for its pods, or start a second time without them.
"""
