"""The life of a gang, as a table.

Theory of operation: a gang's state is not stored anywhere. It is *observed* from two facts, the pods and the job, so a
new leader sees the same state as the old one. Watches show only the latest of several changes, so an observation may
skip states: any state that the table reaches from the last one is legal. What the table does not reach is illegal,
raises and changes nothing: a bound pod cannot wait again, and what is done stays done.

                 ┌────────────────────────────┐
                 ▼                            │ (job ended before its pods were bound)
    WAITING ─▶ SUBMITTED ─▶ STARTED ─▶ BOUND ─▶ RUNNING ─▶ ENDING ─▶ DONE
                                         │        │                   ▲
                                         └────────┴──▶ HANDING_OVER ──┘
"""

from __future__ import annotations

import enum
from functools import cache
from typing import Final


class State(enum.Enum):
    """Where a gang is."""

    WAITING = "waiting"  # no job: not complete, not valid, no node fits, or Slurm refused it
    SUBMITTED = "submitted"  # its job is in Slurm's queue
    STARTED = "started"  # Slurm has given it nodes; the pods are not bound yet
    BOUND = "bound"  # the pods have nodes; no container runs yet
    RUNNING = "running"  # containers run
    ENDING = "ending"  # the pods are over; the job has not ended yet
    HANDING_OVER = "handing-over"  # the job is over; the pods are not gone yet, the epilog waits
    DONE = "done"  # pods and job are over


MOVES: Final[dict[State, dict[State, str]]] = {
    State.WAITING: {
        State.SUBMITTED: "the gang is complete and a node fits: its job was submitted",
        State.DONE: "the pods were deleted before there was a job",
    },
    State.SUBMITTED: {
        State.STARTED: "Slurm started the job: a prolog runs",
        State.WAITING: "the job was cancelled in the queue",
        State.ENDING: "the pods were deleted: the job is cancelled",
    },
    State.STARTED: {
        State.BOUND: "the kubelet would admit the pods: they were bound",
        State.WAITING: "the job ended before the pods were bound, or the kubelet would not admit them",
        State.ENDING: "the pods were deleted: the job is cancelled",
    },
    State.BOUND: {
        State.RUNNING: "the kubelet started the containers",
        State.ENDING: "the kubelet refused the pods, or they were deleted",
        State.HANDING_OVER: "the job ended: preempted, cancelled, out of time",
    },
    State.RUNNING: {
        State.BOUND: "no container runs at this moment: all restart, or are being stopped",
        State.ENDING: "the pods finished or were deleted: the job is told",
        State.HANDING_OVER: "the job ended: preempted, cancelled, out of time",
    },
    State.ENDING: {
        State.DONE: "the job ended",
    },
    State.HANDING_OVER: {
        State.BOUND: "another job holds the node for the pods again: Slurm had lost the first one",
        State.ENDING: "the pods are gone: what is left of the job is cancelled",
        State.DONE: "the pods are gone, the epilog may end",
    },
    State.DONE: {},
}


class IllegalMove(Exception):
    """An observation that no course of events explains; nothing was changed."""


def advance(old: State, new: State) -> State:
    """The new state.

    Raises:
        IllegalMove: the table does not lead there.
    """
    if new not in reachable(old):
        raise IllegalMove(f"a gang that was {old.value} cannot be {new.value}")
    return new


@cache
def reachable(state: State) -> frozenset[State]:
    """The states that an observation after `state` may find, itself included."""
    found = {state}
    while more := {after for before in found for after in MOVES[before]} - found:
        found |= more
    return frozenset(found)
