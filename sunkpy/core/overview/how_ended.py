"""How a job ended, and why Slurm holds one that it has queued again, in words.

A step that slurmstepd could not run ends with the number of an error in slurm_errno.h (from 4001 on) in place of what
wait(2) gives; of that its low seven bits come back as a signal: 4021, ESLURMD_IO_ERROR, as 0:53. Programs raise no such
signals themselves, for they are real-time ones.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sunkpy.core.overview.queue import QueuedJob


class Ending(NamedTuple):
    """What happened to a job, and what to do. In braces: `job` as the person who asks calls it, `partition`, `node`
    (the first).
    """

    because: str
    what_to_do: str


_NODE: Final = "Submit it again; what became of the node: kubectl sunk history {node}"
_USED: Final = (
    "Ask for more with --mem, --mem-per-cpu or --mem-per-gpu; what it used: sacct -j {job} -o JobID,MaxRSS,ReqMem"
)
_STEPS: Final = "Read the end of its output; which step it was: sacct -j {job} -o JobID,State,ExitCode,NodeList"

STATES: Final = {
    "COMPLETED": Ending("its script ended with 0", "Nothing."),
    "CANCELLED": Ending("somebody cancelled it", "Who it was: sacct -j {job} -o JobID,State%40"),
    "TIMEOUT": Ending(
        "it reached its time limit",
        "Ask for more with --time; the longest that there is: scontrol show partition {partition}",
    ),
    "DEADLINE": Ending(
        "it could not end before its deadline", "Submit it again, with a later --deadline or less --time."
    ),
    "OUT_OF_MEMORY": Ending("it needed more memory than it had asked for, and the kernel ended a process", _USED),
    "NODE_FAIL": Ending("Slurm lost a node of it", _NODE),
    "BOOT_FAIL": Ending("a node of it did not boot", _NODE),
    "REVOKED": Ending("another cluster of the federation runs it", "Look for it there: squeue --federation"),
}
"""State in which a job ended → what happened. FAILED is not here. For PREEMPTED the text names the job that has its
nodes.
"""

CODES: Final = {
    126: Ending("its script, or the last command in it, may not be executed", "Make it executable: chmod +x FILE"),
    127: Ending(
        "the last command of its script was not found", "Load its module in the script, or write its whole path."
    ),
}
"""Exit code of the job's script, as bash gives it → what happened."""

SIGNALS: Final = {
    6: Ending("its script aborted (signal 6)", _STEPS),
    7: Ending(
        "a write or read of memory failed (signal 7): /dev/shm or a disk may be full", "Where: df -h /dev/shm /tmp"
    ),
    9: Ending("its script was killed (signal 9), mostly for want of memory", _USED),
    11: Ending("its script crashed (signal 11)", _STEPS),
    42: Ending("slurmd could not make the folder of its script", _NODE),
    46: Ending("slurmd could not make its environment", _NODE),
    48: Ending("slurmd could not become its user", "Ask on the node whether it knows the user: id USER"),
    52: Ending(
        "its script could not be executed",
        "See that the program in its first line (#!) is on the node, and that WorkDir is there and open to you: "
        "scontrol show job {job}",
    ),
    53: Ending(
        "its output, error or input file could not be opened on the node",
        "See that the folders of StdOut, StdErr and StdIn are there on the node and open to you: "
        "scontrol show job {job}",
    ),
    54: Ending("a Prolog failed", _NODE),
}
"""Signal that ended the job, as Slurm says (`0:9`) → what happened."""

REASONS: Final = {
    "JobLaunchFailure": Ending("its script could not be started on its node", _NODE),
    "SystemFailure": Ending("Slurm itself failed", _NODE),
    "InactiveLimit": Ending("its srun or salloc was silent for longer than InactiveLimit", "Submit it again."),
}
"""Slurm's reason → what happened, if neither code nor signal says more."""

HELD: Final = {
    "launch failed requeued held": Ending(
        "a Prolog failed when it started, so Slurm queued it again and holds it",
        "Mend it first, or it fails again: kubectl sunk why-drained. Then: scontrol release {job}",
    ),
    "user env retrieval failed requeued held": Ending(
        "its user's environment could not be read on the node, so Slurm queued it again and holds it",
        "See that a login shell of the user ends at once, or leave out --get-user-env. Then: scontrol release {job}",
    ),
    "launch failure limit exceeded requeued held": Ending(
        "it could not be started several times, and Slurm holds it",
        "Find out why first: kubectl sunk why-drained. Then: scontrol release {job}",
    ),
    "job requeued in held state": Ending("somebody queued it again to be held", "Release it: scontrol release {job}"),
    "job requeued in special exit state": Ending(
        "somebody, or its own script, queued it again as a special exit", "Release it: scontrol release {job}"
    ),
}
"""What slurmctld says about a job that it queued again (job_mgr.c), with reason JobHeldUser or JobHoldMaxRequeue → what
happened.
"""

_UNTOLD: Final = Ending("", "How it ended: sacct -j {job}")


def how_ended(job: QueuedJob) -> Ending:
    """What happened to a job that has ended, and what to do."""
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
    """Why Slurm holds a job that it has queued again, and what to do."""
    return HELD.get(job.said)
