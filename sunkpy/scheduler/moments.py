"""What hooks of one gang are answered from when they look at the same moment: worked out once for all of them.

Each change of a gang wakes all hooks that wait for it, one for each of its nodes, and each looks at the whole gang. By
themselves they would hold the loop for a time that grows with the square of the gang.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from sunkpy.core.gang.hooks import Waiting, prologs_wait_for
from sunkpy.core.gang.view import GangView
from sunkpy.core.model.states import JobId
from sunkpy.scheduler.entries import GangEntry


@dataclass(slots=True)
class Moment:
    """A gang as it was known after so many changes, and what follows from that for the prologs of its jobs."""

    view: GangView
    as_of: int
    _prologs: dict[JobId, Waiting] = field(default_factory=dict)

    def prolog_waits_for(self, job: JobId, slurm_node: str) -> str | None:
        """What the prolog of the job on a node waits for; None when it may end."""
        if job not in self._prologs:
            self._prologs[job] = prologs_wait_for(self.view, job)
        return self._prologs[job].at(slurm_node)


class Moments:
    """A moment lasts until the next change, and for one turn of the event loop at most: whoever was woken by the same
    change has the same.
    """

    def __init__(self, view: Callable[[GangEntry], GangView]) -> None:
        self._view = view
        self._now: dict[GangEntry, Moment] = {}

    def new(self, entry: GangEntry) -> Moment:
        """The gang as it is known now, for somebody who has just told something about it."""
        if entry not in self._now:
            asyncio.get_running_loop().call_soon(self._now.pop, entry, None)
        moment = self._now[entry] = Moment(self._view(entry), as_of=entry.changes)
        return moment

    def same(self, entry: GangEntry) -> Moment:
        """The gang as somebody has seen it since it changed; as it is known now, if nobody has."""
        moment = self._now.get(entry)
        return moment if moment is not None and moment.as_of == entry.changes else self.new(entry)
