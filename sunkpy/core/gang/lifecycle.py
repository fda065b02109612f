"""The life of a gang, as a table.

Theory of operation: a gang's state is not stored anywhere. It is *observed* from two facts, the pods and the job, so a
new leader sees the same state as the old one. `MOVES` has each step from one state to the next with the events that
cause it: an action of ours that took effect, or something that Slurm or a kubelet did. Watches show only the latest of
several changes, so an observation may skip states: any state that the table reaches from the last one is legal. What
it does not reach is illegal, raises and changes nothing: a pod that has a node never waits again, and what is done
stays done. A gang that can have several pods, at once or one after another, has a few moves more: others may wait when
those that had nodes are over. Of a single place it cannot be told from the number of pods.

`docs/architecture.md` has the table as a picture, drawn from here by `tools/draw-lifecycle`.
"""

from __future__ import annotations

import enum
from functools import cache
from typing import Final

import msgspec


class State(enum.Enum):
    """Where a gang is."""

    WAITING = "waiting"  # no job: not complete, not valid, no node fits, or Slurm refused it
    SUBMITTED = "submitted"  # its job is in Slurm's queue
    STARTED = "started"  # Slurm has given it nodes; the pods are not bound yet
    BOUND = "bound"  # a pod has a node; no container runs
    RUNNING = "running"  # containers run
    ENDING = "ending"  # the pods are over; the job has not ended yet
    HANDING_OVER = "handing-over"  # the job has lost its nodes; pods are still there, the epilog waits
    DONE = "done"  # pods and job are over


class Event(enum.Enum):
    """What moves a gang."""

    # Actions that took effect, by the name of their class in `actions`.
    SUBMIT = "Submit"
    BIND = "Bind"
    # What Slurm did with the job.
    JOB_STARTED = "job started"
    JOB_QUEUED_AGAIN = "job queued again"
    JOB_SUSPENDED = "job suspended"
    JOB_RESUMED = "job resumed"
    JOB_ENDED = "job ended"
    JOB_LOST = "job lost"
    EPILOG_ENDED = "epilog ended"
    # What became of the pods.
    CONTAINER_RUNS = "container runs"
    CONTAINER_STOPS = "container stops"
    PODS_OVER = "pods over"
    POD_GONE = "pod gone"
    POD_CREATED = "pod created"


class Move(msgspec.Struct, frozen=True):
    """A step: the events that cause it, and what they mean; `several`: only gangs that can have several pods do it."""

    on: tuple[Event, ...]
    why: str
    several: bool = False


_E = Event

_OTHERS_WAIT: Final = Move(
    (_E.CONTAINER_STOPS, _E.POD_GONE, _E.JOB_ENDED, _E.JOB_LOST, _E.JOB_SUSPENDED, _E.JOB_QUEUED_AGAIN),
    "of several pods those that had nodes are over; others wait for a job",
    several=True,
)
_OTHERS_COME: Final = Move((_E.POD_CREATED,), "of several pods one was made in the stead of another", several=True)

MOVES: Final[dict[State, dict[State, Move]]] = {
    State.WAITING: {
        State.SUBMITTED: Move((_E.SUBMIT,), "the gang is complete and a node fits: its job was submitted"),
        State.ENDING: Move((_E.PODS_OVER,), "the pods were deleted while an epilog of an earlier job runs"),
        State.DONE: Move((_E.PODS_OVER,), "the pods were deleted before there was a job"),
    },
    State.SUBMITTED: {
        State.STARTED: Move((_E.JOB_STARTED, _E.JOB_RESUMED), "Slurm started the job: a prolog runs"),
        State.WAITING: Move((_E.JOB_ENDED, _E.JOB_LOST), "the job was cancelled in the queue, or is lost"),
        State.BOUND: Move(
            (_E.JOB_RESUMED, _E.JOB_STARTED), "of several pods some had nodes of it before", several=True
        ),
        State.ENDING: Move((_E.PODS_OVER,), "the pods were deleted: the job is cancelled"),
    },
    State.STARTED: {
        State.BOUND: Move((_E.BIND,), "the kubelet would admit the pod: it was bound"),
        State.SUBMITTED: Move((_E.JOB_QUEUED_AGAIN, _E.JOB_SUSPENDED), "Slurm took the nodes back for now"),
        State.WAITING: Move((_E.JOB_ENDED, _E.JOB_LOST), "the job ended before the pods were bound, or is lost"),
        State.ENDING: Move((_E.PODS_OVER,), "the pods were deleted: the job is cancelled"),
    },
    State.BOUND: {
        State.WAITING: _OTHERS_WAIT,
        State.SUBMITTED: _OTHERS_WAIT,
        State.STARTED: _OTHERS_WAIT,
        State.RUNNING: Move((_E.CONTAINER_RUNS,), "the kubelet started a container"),
        State.HANDING_OVER: Move(
            (_E.JOB_ENDED, _E.JOB_SUSPENDED, _E.JOB_QUEUED_AGAIN), "the job lost its nodes: preempted, out of time …"
        ),
        State.ENDING: Move((_E.PODS_OVER,), "the kubelet refused the pods, or they were deleted"),
        State.DONE: Move((_E.PODS_OVER,), "the same, and Slurm has lost the job"),
    },
    State.RUNNING: {
        State.WAITING: _OTHERS_WAIT,
        State.SUBMITTED: _OTHERS_WAIT,
        State.STARTED: _OTHERS_WAIT,
        State.BOUND: Move((_E.CONTAINER_STOPS,), "no container runs at this moment: all restart, or are being stopped"),
        State.HANDING_OVER: Move(
            (_E.JOB_ENDED, _E.JOB_SUSPENDED, _E.JOB_QUEUED_AGAIN), "the job lost its nodes: preempted, out of time …"
        ),
        State.ENDING: Move((_E.PODS_OVER,), "the pods finished or were deleted: the job is told"),
        State.DONE: Move((_E.PODS_OVER,), "the same, and Slurm has lost the job"),
    },
    State.HANDING_OVER: {
        State.WAITING: _OTHERS_WAIT,
        State.SUBMITTED: _OTHERS_WAIT,
        State.STARTED: _OTHERS_WAIT,
        State.BOUND: Move((_E.JOB_RESUMED, _E.JOB_STARTED, _E.JOB_LOST), "the pods hold their nodes after all"),
        State.RUNNING: Move((_E.JOB_RESUMED, _E.JOB_STARTED, _E.JOB_LOST), "the pods hold their nodes after all"),
        State.ENDING: Move((_E.PODS_OVER,), "the pods are gone: the epilog may end"),
        State.DONE: Move((_E.PODS_OVER,), "the pods are gone, and so was the job"),
    },
    State.ENDING: {
        State.WAITING: _OTHERS_COME,
        State.SUBMITTED: _OTHERS_COME,
        State.STARTED: _OTHERS_COME,
        State.BOUND: _OTHERS_COME,
        State.DONE: Move((_E.EPILOG_ENDED, _E.JOB_ENDED, _E.JOB_LOST), "nothing is left of the job"),
    },
    State.DONE: {},
}


class IllegalMove(Exception):
    """An observation that no course of events explains; nothing was changed."""


def advance(old: State, new: State, *, several: bool = False) -> State:
    """The new state; `several`: of a gang that can have several pods (`GangView.is_several`).

    Raises:
        IllegalMove: the table does not lead there.
    """
    if new not in reachable(old, several=several):
        raise IllegalMove(f"a gang that was {old.value} cannot be {new.value}")
    return new


@cache
def reachable(state: State, *, several: bool = False) -> frozenset[State]:
    """The states that an observation after `state` may find, itself included."""
    found = {state}
    while (
        more := {after for before in found for after, move in MOVES[before].items() if several or not move.several}
        - found
    ):
        found |= more
    return frozenset(found)
