"""Until when a write may be sent.

Only the leader writes, and only as long as nobody else can lead: every client that writes is given a `Deadline`, sends
a write with no more time than is left, and refuses one when nothing is left. Reads have no such limit.

A request cannot be recalled: one that was sent in time may be carried out after the deadline, when the server is slow.
What guards against that lies in the request itself. In Kubernetes: uid and resourceVersion, a Binding that succeeds
once. In Slurm: a job can be cancelled or updated twice; a job that was submitted late is found by the gang in its
comment, by the sweep of the next leader or by its own Prolog; a late drain or resume is a state that the next poll sees
and decides again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Deadline = Callable[[], float]
"""The seconds that are left; 0 when there are none."""

OVER = "not sent: the lease has expired"


def unlimited() -> float:
    """The deadline of a process that needs no lease: none."""
    return math.inf
