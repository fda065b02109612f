"""What hooks say and how they are answered."""

from __future__ import annotations

import msgspec

from sunkpy.core.model.states import JobId

LONG_POLL_S = 20.0
"""A call waits at most so many seconds. Then the answer is that it should ask again."""


class HookCall(msgspec.Struct, frozen=True):
    """The body of a call.

    `gang` is what the node knows of the job's comment: a slurmctld that lost its state may give the number to another
    job. `marked`: the jobs that have left a mark on the node, in calls to the gate.
    """

    job_id: JobId
    node: str
    gang: str = ""
    marked: tuple[JobId, ...] = ()


class HookAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of an answer.

    `kept`: the epilog may end, but pods stay on the node, and so must the mark. `over`: marks that mean nothing
    any more.
    """

    done: bool
    why: str = ""
    kept: bool = False
    over: tuple[JobId, ...] = ()


NOT_OURS = HookAnswer(done=True, why="not the job of a pod")
GIVEN_UP = HookAnswer(done=True, why="the job goes on without this node: the pods that it has there stay", kept=True)
LOST = HookAnswer(done=True, why="its pods stay: the job was lost, not ended", kept=True)
PARTED = HookAnswer(done=True, why="pods that were set apart from its gang wait for a job of their own", kept=True)
ELSEWHERE = HookAnswer(done=True, why="Slurm does not have the job on this node: pods of it stay", kept=True)
"""A slurmctld that was killed and forgot the start has the job in the queue, or elsewhere. Nothing follows from the
call: as long as the mark stays, the gate looks for pods.
"""
FORGOTTEN = HookAnswer(done=True, why="Slurm does not know the job: pods of it stay", kept=True)
"""The node's Slurm never said that the job ended, or it knows another job under that number: the call proves nothing.
"""


class Denied(Exception):
    """The caller may not say this; `status` is 401, 403 or 429."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class NotThere(Denied):
    """Slurm has not given the job to the node that calls."""

    def __init__(self, why: str) -> None:
        super().__init__(403, why)
