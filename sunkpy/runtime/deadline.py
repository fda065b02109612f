"""How long a leader may still send writes.

Only the leader writes, and only as long as nobody else can lead. Every client that writes gets a `Deadline`: it gives a
write no more time than is left, and refuses one when nothing is left. Reads have no such limit.

A request cannot be recalled: one that was sent in time may be carried out after the deadline, if the server is slow.
The request itself guards against that. In Kubernetes it has uid and resourceVersion, and a Binding succeeds only once.
In Slurm a job can be cancelled or updated twice; a job that was submitted late is found by the gang in its comment, by
the sweep of the next leader or by its own Prolog; a late drain or resume is a state that the next poll sees and decides
again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Deadline = Callable[[], float]
"""A function that returns the seconds for which writes may be sent; 0 if none are left."""

OVER = "not sent: the lease has expired"


def unlimited() -> float:
    """Return an endless deadline, for a process that needs no lease."""
    return math.inf
