"""Limits the time in which a leader may send writes.

Only the leader writes, and only as long as nobody else can lead. Every client that writes gets a `Deadline`, a function
that returns how many seconds are left. The client gives a write no more time than that, and refuses it when none is
left. Reads have no such limit.

A request cannot be recalled: one that was sent in time may be carried out after the deadline, if the server is slow. So
the request itself must do no harm then. In Kubernetes it has uid and resourceVersion, and a Binding succeeds only once.
In Slurm a job can be cancelled or updated twice. A job that was submitted late names its gang in its comment, by which
the next leader, when it reads all jobs, or the job's own Prolog finds it. A late drain or resume is a state that the
next poll sees and decides again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Deadline = Callable[[], float]
"""A function that returns the seconds for which writes may be sent; 0 if none are left."""

OVER = "not sent: the lease has expired"


def unlimited() -> float:
    """Return infinity. This is the `Deadline` of a process that needs no lease."""
    return math.inf
