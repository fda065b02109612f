"""Decides which gangs may submit a job now, after Slurm has refused jobs because a limit was reached.

If Slurm refuses a gang's job for a limit of an association or QoS, the gang stands in line, and the oldest gang in line
submits first. If each gang submitted by itself, after longer and longer pauses, the newest gang would get what becomes
free, because it tries most often. Slurm does not say which limit was reached, so there is a line for each combination
of user, account, QoS and partition. A gang that comes later joins the line. At regular times, and whenever Slurm has
accepted a job from the line, the oldest gang in it submits.

Slurm may refuse a job for its size, now and always. So if the oldest gang is refused, another gang of the line submits
as well, each time a different one.
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
    """The gangs whose jobs Slurm has refused for one limit, and that wait to submit again. `waiting`: for each gang,
    since when its pods exist and when it was first seen. `asking`: the gangs that may submit now. `why`: Slurm's
    reason.
    """

    why: str
    waiting: dict[GangId, tuple[str, float]] = field(default_factory=dict)
    asking: set[GangId] = field(default_factory=set)
    turns: int = 0

    @property
    def oldest(self) -> GangId | None:
        """The gang that has waited longest; None if the line is empty."""
        return min(self.waiting, key=self.waiting.__getitem__, default=None)


class SubmitLines:
    """Lines of gangs whose jobs Slurm has refused for a limit, and that wait to submit again; each leader has its own.
    Every `again_s` seconds the oldest gang of each line may submit.
    """

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._ledger = leader.ledger
        self._lines: dict[_Limit, _Line] = {}

    async def run(self) -> None:
        """Call `next_turn` every `again_s` seconds, until cancelled."""
        while True:
            await asyncio.sleep(self._leader.settings.times.again_s)
            self.next_turn()

    def next_turn(self) -> None:
        """Let the oldest gang of each line submit. In a line stand the gangs whose jobs Slurm has refused for the same
        limit.
        """
        for limit, line in tuple(self._lines.items()):
            self._forget_gone(line)
            if not line.waiting:
                del self._lines[limit]
                continue
            line.turns += 1
            self._turn(line)

    def why_waits(self, record: GangRecord, spec: JobSpec) -> str:
        """Return empty text if the gang may submit this job now. If other gangs wait for the same limit of Slurm, and
        it is not this gang's turn, put the gang into their line and return the reason.
        """
        line = self._lines.get(_limit(spec))
        if line is None or record.id in line.asking or not line.waiting:
            return ""
        self._join(line, record)
        return line.why

    def refused(self, record: GangRecord, spec: JobSpec, why: str) -> None:
        """Put a gang into the line for a limit, because Slurm has refused its job for this limit. `why`: Slurm's
        reason. If it is the oldest gang of the line, another gang may submit instead.
        """
        line = self._lines.setdefault(_limit(spec), _Line(why=why))
        line.why = why
        line.asking.discard(record.id)
        self._join(line, record)
        if record.id == line.oldest:
            self._ask_another(line)

    def left(self, record: GangRecord, spec: JobSpec, *, is_taken: bool) -> None:
        """Take a gang out of the line in which it waits for a limit of Slurm. `is_taken`: Slurm has accepted its job,
        so the next gang of the line may submit.
        """
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
        """Let the oldest gang of the line submit. If it has not submitted since it was last allowed to, let another
        gang submit too. In the line stand the gangs whose jobs Slurm has refused for one limit.
        """
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
    """Limits how many jobs are made for the pods of one namespace: at most `most` within `WINDOW_S` seconds, or any
    number if `most` is 0. Each leader counts for itself. `clock` returns seconds.

    slurmctld keeps an ended job for minutes, and refuses new jobs of everybody while its table of jobs is full. Without
    this limit, pods of one namespace that come and go quickly could fill the table; a quota of pods does not prevent
    that.
    """

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._made_at: dict[str, deque[float]] = {}

    def note(self, namespace: str) -> None:
        """Count a job that was just made for pods of the namespace."""
        if self._most:
            self._made_at.setdefault(namespace, deque(maxlen=self._most)).append(self._clock())

    def wait_s(self, namespace: str) -> float:
        """Return after how many seconds another job may be made for the namespace; 0 if it may be made now."""
        made_at, since = self._made_at.get(namespace, deque[float]()), self._clock() - WINDOW_S
        while made_at and made_at[0] <= since:
            made_at.popleft()
        if not made_at:
            self._made_at.pop(namespace, None)
        return max(made_at[0] - since, _AGAIN_S) if len(made_at) == self._most > 0 else 0.0

    def explain(self, namespace: str) -> str:
        """Return a text for people: why pods of the namespace have to wait for a job."""
        return (
            f"the pods of namespace {namespace} have made {self._most} Slurm jobs within {WINDOW_S / 60:.0f} minutes, "
            "which is the limit of a namespace (scheduler.namespaceShare of the Slurm cluster): further jobs wait "
            "until "
            f"fewer were made in the last {WINDOW_S / 60:.0f} minutes"
        )
