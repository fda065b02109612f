"""How often Slurm may be asked for all its nodes: slurmctld spends at most a tenth of its time on that.

While slurmctld packs its nodes it holds the locks that scheduling needs. So the next read is not sent before ten times
what the last one cost it. slurmctld itself knows that (`sdiag`, GET diag/); where it does not say, the whole time of
the read counts; most of it is the time in which slurmrestd writes JSON. A third of slurmrestd's time is left for
others.

A read that says "unchanged" costs next to nothing, so an idle cluster is read each second, of whatever size.
"""

from __future__ import annotations

import msgspec

SHARE = 10.0
"""Times its cost to slurmctld pass between two reads."""
REST_SHARE = 1.5
"""Times its whole duration pass between two reads, from the sending of one to the sending of the next."""
LONGEST_S = 30.0
"""However long a read takes, the next one is sent after this time."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of a read: `took_s` from request to answer, `slurmctld_s` that slurmctld worked on it, if it says so."""

    took_s: float = 0.0
    slurmctld_s: float | None = None

    @property
    def pause_s(self) -> float:
        """Seconds from the sending of this read before which no other is sent."""
        if self.slurmctld_s is None:
            return min(SHARE * self.took_s, LONGEST_S)
        own_s = min(self.slurmctld_s, self.took_s)
        return min(max(SHARE * own_s, REST_SHARE * self.took_s), LONGEST_S)


def turn_s(poll_s: float, cost: Cost) -> float:
    """Seconds from the sending of one read until the next one can be answered."""
    return min(max(poll_s, cost.pause_s), LONGEST_S) + cost.took_s
