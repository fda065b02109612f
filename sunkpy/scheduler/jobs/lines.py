"""Decides which gangs may submit a job now, if a limit of Slurm has been reached.

Gangs whose jobs Slurm refuses for a limit of an association or QoS stand in line, and the oldest submits first. If each
submitted by itself, after longer and longer pauses, the newest would get what becomes free, because it tries most
often. Slurm does not say which limit was reached, so each user, account, QoS and partition has its own line. A gang
that comes later joins the line. In each turn the oldest gang submits, and the next one after each job that Slurm takes.

Slurm may refuse a job for its size, now and always. So when the oldest is refused, one of the others submits as well,
in each turn another one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.record import GangRecord

_NEVER: Final = float("inf")

_Limit = tuple[str, str, str, str]
"""User, account, QoS and partition of jobs that have the same limits."""
WINDOW_S: Final = 300.0
"""Seconds that slurmctld keeps an ended job: the default of MinJobAge, slurm.conf(5)."""
_AGAIN_S: Final = 15.0
"""The shortest wait of a gang whose namespace has reached its share: thousands may wait, and each try is a pass."""


@dataclass(slots=True)
class _Line:
    """The gangs that wait for one limit (`waiting`: gang → since when), and those that may submit now (`asking`)."""

    why: str
    waiting: dict[GangId, tuple[str, float]] = field(default_factory=dict)
    asking: set[GangId] = field(default_factory=set)
    turns: int = 0

    @property
    def oldest(self) -> GangId | None:
        """The gang that has waited longest."""
        return min(self.waiting, key=self.waiting.__getitem__, default=None)


class SubmitLines:
    """Lines of gangs that wait for a turn to submit; each leader has its own. A turn comes every `again_s`."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._ledger = leader.ledger
        self._lines: dict[_Limit, _Line] = {}

    async def run(self) -> None:
        """Call `next_turn` each `again_s`, until cancelled."""
        while True:
            await asyncio.sleep(self._leader.settings.times.again_s)
            self.next_turn()

    def next_turn(self) -> None:
        """Let the oldest gang of each line submit."""
        for limit, line in tuple(self._lines.items()):
            self._forget_gone(line)
            if not line.waiting:
                del self._lines[limit]
                continue
            line.turns += 1
            self._turn(line)

    def why_waits(self, record: GangRecord, spec: JobSpec) -> str:
        """Return why the gang may not submit now, and put it into the line; empty if it may."""
        line = self._lines.get(_limit(spec))
        if line is None or record.id in line.asking or not line.waiting:
            return ""
        self._join(line, record)
        return line.why

    def refused(self, record: GangRecord, spec: JobSpec, why: str) -> None:
        """Put a gang whose job Slurm has refused for a limit into its line."""
        line = self._lines.setdefault(_limit(spec), _Line(why=why))
        line.why = why
        line.asking.discard(record.id)
        self._join(line, record)
        if record.id == line.oldest:
            self._ask_another(line)

    def left(self, record: GangRecord, spec: JobSpec, *, is_taken: bool) -> None:
        """Take a gang out of its line. `is_taken`: Slurm has accepted its job, so the next gang may submit."""
        line = self._lines.get(_limit(spec))
        if line is None:
            return
        self._leave(line, record.id)
        if is_taken:
            self._turn(line)

    def _join(self, line: _Line, record: GangRecord) -> None:
        if record.id not in line.waiting:
            pods = record.recognised.gang.members if record.recognised.gang is not None else ()
            since = min((pod.metadata.creation_timestamp for pod in pods), default="")
            line.waiting[record.id] = (since, record.seen_at)
        record.retry_at, record.refused = _NEVER, line.why

    def _turn(self, line: _Line) -> None:
        """Let the oldest gang submit. If it has not done so since the last turn, let another one submit too."""
        oldest = line.oldest
        is_silent = oldest in line.asking
        if oldest is not None:
            self._ask(line, oldest)
        if is_silent:
            self._ask_another(line)

    def _ask_another(self, line: _Line) -> None:
        others = [id for id in line.waiting if id != line.oldest]
        if others:
            self._ask(line, others[line.turns % len(others)])

    def _ask(self, line: _Line, id: GangId) -> None:
        if (record := self._ledger.get(id)) is not None:
            line.asking.add(id)
            record.retry_at = 0.0
            self._ledger.queue.add(id)

    def _forget_gone(self, line: _Line) -> None:
        for id in tuple(line.waiting):
            record = self._ledger.get(id)
            if record is None or record.has_live_job:
                self._leave(line, id)
                if record is not None and record.retry_at == _NEVER:
                    record.retry_at = 0.0  # if it loses that job, no line would wake it

    def _leave(self, line: _Line, id: GangId) -> None:
        line.waiting.pop(id, None)
        line.asking.discard(id)


def _limit(spec: JobSpec) -> _Limit:
    return (spec.user, spec.account, spec.qos, spec.partition)


class NamespaceShares:
    """Limits the jobs of a namespace to `most` within `WINDOW_S`, 0 for any number; each leader counts for itself.
    `clock` is in seconds.

    slurmctld keeps an ended job for minutes, and refuses new jobs of everybody while its table is full. Without this
    limit, the pods of one namespace that come and go fast could fill the table; no quota of pods prevents that.
    """

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._made_at: dict[str, deque[float]] = {}

    def note(self, namespace: str) -> None:
        """Count a job that was made for pods of the namespace."""
        if self._most:
            self._made_at.setdefault(namespace, deque(maxlen=self._most)).append(self._clock())

    def wait_s(self, namespace: str) -> float:
        """Return the seconds until the namespace may have another job; 0 if it may now."""
        made_at, since = self._made_at.get(namespace, deque[float]()), self._clock() - WINDOW_S
        while made_at and made_at[0] <= since:
            made_at.popleft()
        if not made_at:
            self._made_at.pop(namespace, None)
        return max(made_at[0] - since, _AGAIN_S) if len(made_at) == self._most > 0 else 0.0

    def explain(self, namespace: str) -> str:
        """Return in words why pods of the namespace have to wait."""
        return (
            f"the pods of namespace {namespace} have made {self._most} Slurm jobs within {WINDOW_S / 60:.0f} minutes, "
            "which is the limit of a namespace (scheduler.namespaceShare of the Slurm cluster): more are submitted as "
            "these get older"
        )
