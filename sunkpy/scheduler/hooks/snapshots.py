"""Snapshots of gangs for their hooks: made once for all hooks that look at the same time.

Each change of a gang wakes all hooks that wait for it, one for each of its nodes, and each looks at the whole gang.
Without sharing, the time that they take grows with the square of the gang.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from sunkpy.core.gang.hooks import prologs_wait_for
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.states import JobId
from sunkpy.scheduler.record import Record


@dataclass(slots=True)
class HookSnapshot:
    """A gang after a number of changes, and what its prologs wait for."""

    snapshot: Snapshot
    changes: int
    _prologs: dict[JobId, dict[str, str]] = field(default_factory=dict)

    def prolog_waits_for(self, job: JobId, slurm_node: str) -> str | None:
        """What the prolog of the job on a node waits for; None when it may end."""
        if job not in self._prologs:
            self._prologs[job] = prologs_wait_for(self.snapshot, job)
        return self._prologs[job].get(slurm_node)


class HookSnapshots:
    """A snapshot lasts until the next change, and for one turn of the event loop at most: hooks that were woken by the
    same change share it.
    """

    def __init__(self, snapshot: Callable[[Record], Snapshot]) -> None:
        self._snapshot = snapshot
        self._latest: dict[Record, HookSnapshot] = {}

    def new(self, record: Record) -> HookSnapshot:
        """The gang as it is known now."""
        if record not in self._latest:
            asyncio.get_running_loop().call_soon(self._latest.pop, record, None)
        latest = self._latest[record] = HookSnapshot(self._snapshot(record), changes=record.changes)
        return latest

    def shared(self, record: Record) -> HookSnapshot:
        """The snapshot that another hook has made since the last change, or a new one."""
        latest = self._latest.get(record)
        return latest if latest is not None and latest.changes == record.changes else self.new(record)
