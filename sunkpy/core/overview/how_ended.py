"""Texts that say why a job ended, or why Slurm holds a job that it has requeued, and what to do.

If slurmstepd cannot run a step, the step's exit status is an error number of slurm_errno.h (from 4001 on) instead of a
status of wait(2). Slurm shows the low seven bits of that number as a signal: 4021 (ESLURMD_IO_ERROR) as 0:53. Programs
hardly ever end by such a signal themselves: numbers from 34 on are real-time signals.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sunkpy.core.explain.words import RELEASE
from sunkpy.core.overview.queue import QueuedJob


class Ending(NamedTuple):
    """What happened to a job, and what to do.

    `what_to_do` may have the placeholders {job} (its number as the person wrote it), {partition} and {node} (its first
    node).
    """

    because: str
    what_to_do: str


_NODE: Final = "Submit it again. To see what happened to the node: kubectl sunk history {node}"
_USED: Final = (
    "Ask for more with --mem, --mem-per-cpu or --mem-per-gpu. To see what it used: "
    "sacct -j {job} -o JobID,MaxRSS,ReqMem"
)
_STEPS: Final = "Read the end of its output. To see which step failed: sacct -j {job} -o JobID,State,ExitCode,NodeList"

STATES: Final = {
    "COMPLETED": Ending("its script ended with 0", "Nothing."),
    "CANCELLED": Ending("somebody or Slurm cancelled it", "To see who: sacct -j {job} -o JobID,State%40"),
    "TIMEOUT": Ending(
        "it reached its time limit",
        "Ask for more with --time. To see the longest allowed: scontrol show partition {partition}",
    ),
    "DEADLINE": Ending(
        "it could not end before its deadline", "Submit it again, with a later --deadline or less --time."
    ),
    "OUT_OF_MEMORY": Ending("it needed more memory than it had asked for, and the kernel ended a process", _USED),
    "NODE_FAIL": Ending("one of its nodes failed", _NODE),
    "BOOT_FAIL": Ending("one of its nodes did not boot", _NODE),
    "REVOKED": Ending("another cluster of the federation runs it", "Look for it there: squeue --federation"),
}
"""Final state of a job → what happened. FAILED and PREEMPTED are not here: they are explained by other rules."""

CODES: Final = {
    126: Ending("its script, or the last command in it, is not executable", "Make it executable: chmod +x FILE"),
    127: Ending(
        "the last command of its script was not found", "Load its module in the script, or write its whole path."
    ),
}
"""Exit code of the job's script, as bash gives it → what happened."""

SIGNALS: Final = {
    6: Ending("its script aborted (signal 6)", _STEPS),
    7: Ending(
        "a write or read of memory failed (signal 7): /dev/shm or a disk may be full",
        "See which one is full: df -h /dev/shm /tmp",
    ),
    9: Ending("its script was killed (signal 9), mostly because it needed too much memory", _USED),
    11: Ending("its script crashed (signal 11)", _STEPS),
    42: Ending("slurmd could not create the folder for its script", _NODE),
    46: Ending("slurmd could not create its environment", _NODE),
    48: Ending("slurmd could not run it as its user", "See on the node whether it knows the user: id USER"),
    52: Ending(
        "its script could not be executed",
        "See that the program in its first line (#!) exists on the node, and that you may use WorkDir there: "
        "scontrol show job {job}",
    ),
    53: Ending(
        "its output, error or input file could not be opened on the node",
        "See that the folders of StdOut, StdErr and StdIn exist on the node, and that you may use them: "
        "scontrol show job {job}",
    ),
    54: Ending("a Prolog failed", _NODE),
}
"""Signal that ended the job, as Slurm shows it (`0:9`) → what happened."""

REASONS: Final = {
    "JobLaunchFailure": Ending("its script could not be started on its node", _NODE),
    "SystemFailure": Ending("Slurm itself failed", _NODE),
    "InactiveLimit": Ending("its srun or salloc was silent for longer than InactiveLimit", "Submit it again."),
}
"""Slurm's reason of an ended job → what happened; used if neither exit code nor signal says it."""

HELD: Final = {
    "launch failed requeued held": Ending(
        "a Prolog failed when the job started, so Slurm requeued the job and holds it",
        f"Mend the node first, or the Prolog fails again: kubectl sunk why-drained. Then: {RELEASE}",
    ),
    "user env retrieval failed requeued held": Ending(
        "its user's environment could not be read on the node, so Slurm requeued it and holds it",
        f"See that a login shell of the user ends at once, or leave out --get-user-env. Then: {RELEASE}",
    ),
    "launch failure limit exceeded requeued held": Ending(
        "Slurm failed to start it several times, and holds it",
        f"Find out why first: kubectl sunk why-drained. Then: {RELEASE}",
    ),
    "job requeued in held state": Ending("somebody requeued it and holds it", f"Release it: {RELEASE}"),
    "job requeued in special exit state": Ending(
        "somebody, or its own script, requeued it as a special exit", f"Release it: {RELEASE}"
    ),
}
"""slurmctld's text about a job that it requeued and holds, with reason JobHeldUser or JobHoldMaxRequeue (job_mgr.c) →
what happened.
"""

_UNTOLD: Final = Ending("", "To see how it ended: sacct -j {job}")


def how_ended(job: QueuedJob) -> Ending:
    """Return why a job has ended, and what to do."""
    for state, told in STATES.items():
        if state in job.row.state:
            return told
    if job.signal:
        return SIGNALS.get(job.signal, Ending(f"signal {job.signal} ended its script", _STEPS))
    if (code := job.exit_code) > 128 and (known := SIGNALS.get(code - 128)):
        return known
    if code in CODES:
        return CODES[code]
    if job.row.reason in REASONS:
        return REASONS[job.row.reason]
    return Ending(f"its script ended with {code}", _STEPS) if code else _UNTOLD


def why_held(job: QueuedJob) -> Ending | None:
    """Return why Slurm holds a job that it has requeued, and what to do. None if the job is not held, or if `HELD` has
    no text for Slurm's reason.
    """
    return HELD.get(job.said)
