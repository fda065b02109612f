"""The messages between the scheduler and the Prologs and Epilogs (hooks) of nodes: a call and its answer."""

from __future__ import annotations

import msgspec

from sunkpy.core.model.states import JobId

LONG_POLL_S = 20.0
"""Seconds that a call waits at most. Then the answer tells the hook to ask again."""


class HookCall(msgspec.Struct, frozen=True):
    """The body of a call by a Prolog or Epilog of a job.

    Args:
        job_id: the job.
        node: the Slurm node that calls.
        gang: the comment of the job as the node knows it. It shows which job is meant, because a slurmctld that has
            lost its state may give the same ID to another job.
        marked: when a Prolog asks whether earlier pods have left the node: the jobs that have a marker file on the
            node, because they may have pods there.
    """

    job_id: JobId
    node: str
    gang: str = ""
    marked: tuple[JobId, ...] = ()


class HookAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of the answer to a Prolog or Epilog. A marker file on a node says that a job may have pods there.

    Args:
        done: True if the Prolog or Epilog may end; False if it has to ask again.
        why: what it has to wait for, or why it need not wait.
        kept: True if an Epilog may end although pods of its job stay on the node. Its marker file has to stay there
            too.
        over: the jobs whose marker files the node can remove.
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
"""The answer to an Epilog of a job that Slurm has in the queue or on other nodes: a slurmctld that was killed has
forgotten that the job started here. The call proves nothing. While the marker file stays, the gate looks for pods.
"""
FORGOTTEN = HookAnswer(done=True, why="Slurm does not know the job: pods of it stay", kept=True)
"""The answer if Slurm does not know the job, or knows another job under its ID. The call does not prove that the job
has ended.
"""


class Denied(Exception):
    """The caller may not speak for this node or job, or has sent too many tokens that were not accepted. `status` is
    the HTTP status of the answer: 401, 403 or 429.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class NotThere(Denied):
    """Slurm has not given the job to the node that calls; the HTTP status is 403."""

    def __init__(self, why: str) -> None:
        super().__init__(403, why)
