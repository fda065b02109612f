"""Computes how often all nodes may be read from Slurm: slurmctld should spend at most a tenth of its time on these
reads.

While slurmctld packs its nodes it holds the locks that scheduling needs. So the pause between two reads is ten times
the time that slurmctld worked on the first one, but at most 30 s. slurmctld reports this time (`sdiag`, GET diag/). If
it does not, the duration of the whole read counts, most of which slurmrestd needs to write JSON. A third of
slurmrestd's time is left for other requests.

A read with the answer "unchanged" costs almost nothing, so an idle cluster of any size can be read each second.
"""

from __future__ import annotations

import msgspec

SHARE = 10.0
"""The least time between two reads, as a multiple of the time that slurmctld worked on the first."""
REST_SHARE = 1.5
"""The least time from sending one read to sending the next, as a multiple of the first one's duration."""
LONGEST_S = 30.0
"""The longest pause before the next read, in seconds, even if a read takes long."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a read. `took_s`: seconds from request to answer; `slurmctld_s`: seconds that slurmctld worked on it,
    if it says so.
    """

    took_s: float = 0.0
    slurmctld_s: float | None = None

    @property
    def pause_s(self) -> float:
        """The least number of seconds from sending this read to sending the next."""
        if self.slurmctld_s is None:
            return min(SHARE * self.took_s, LONGEST_S)
        own_s = min(self.slurmctld_s, self.took_s)
        return min(max(SHARE * own_s, REST_SHARE * self.took_s), LONGEST_S)


def turn_s(poll_s: float, cost: Cost) -> float:
    """Return the seconds from sending one read until the answer of the next one."""
    return min(max(poll_s, cost.pause_s), LONGEST_S) + cost.took_s
