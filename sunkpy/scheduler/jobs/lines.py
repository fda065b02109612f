"""Decides which gangs may submit a job now, after Slurm has refused jobs because a limit was reached.

If Slurm refuses a gang's job for a limit of an association or QoS, the gang stands in line, and the oldest gang in line
submits first. If each gang submitted by itself, after longer and longer pauses, the newest gang would get what becomes
free, because it tries most often. Slurm does not say which limit was reached, so there is a line for each combination
of namespace, user, account, QoS and partition. At regular times, and whenever Slurm has accepted a job from the line,
the oldest gang in it submits.

Slurm may refuse a job for its size, now and always. So no gang waits for another one that asks for something else: a
gang that comes later joins the line without a try only if a gang in it asks for the same. If the oldest gang is
refused, another gang of the line submits as well. Requests take turns for this, and so do the gangs with one request.

The lines of one namespace keep no other namespace waiting, and no other namespace sees the names of its jobs. However
many gangs wait in a line, Slurm gets two requests for it at a time.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.record import GangRecord

_NEVER: Final = float("inf")
_LINES_A_TURN: Final = 20
"""The most lines in which a gang submits at one time, those whose last turn is the longest ago. Hundreds of namespaces
may wait for one limit.
"""

_Limit = tuple[str, str, str, str, str]
"""Namespace of the gang, and user, account, QoS and partition of jobs that have the same limits."""
WINDOW_S: Final = 300.0
"""Seconds that slurmctld keeps an ended job: the default of MinJobAge, slurm.conf(5)."""
_AGAIN_S: Final = 15.0
"""The shortest wait of a gang whose namespace has reached its share: thousands may wait, and each try is a pass."""


@dataclass(slots=True)
class _Line:
    """The gangs of one namespace whose jobs Slurm has refused for one limit, and that wait to submit again.

    `why`: Slurm's reason. `waiting`: for each gang, since when its pods exist and when it was first seen. `request_of`:
    what each gang asks for. `alike`: the gangs with each request; those that were last allowed to submit come last.
    `asking`: the gangs that may submit now.
    """

    why: str = ""
    waiting: dict[GangId, tuple[str, float]] = field(default_factory=dict)
    request_of: dict[GangId, JobSpec] = field(default_factory=dict)
    alike: OrderedDict[JobSpec, OrderedDict[GangId, None]] = field(default_factory=OrderedDict)
    asking: set[GangId] = field(default_factory=set)

    @property
    def oldest(self) -> GangId | None:
        """The gang that has waited longest, of those that may not submit yet; None if there is none."""
        return min((id for id in self.waiting if id not in self.asking), key=self.waiting.__getitem__, default=None)


class SubmitLines:
    """Lines of gangs whose jobs Slurm has refused for a limit, and that wait to submit again; each leader has its own.
    Every `again_s` seconds the oldest gang of each line may submit; if there are very many lines, they take turns.
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
        """Let the oldest gang of each line submit, in `_LINES_A_TURN` lines at most. In a line stand the gangs of a
        namespace whose jobs Slurm has refused for the same limit.
        """
        for limit in tuple(self._lines)[:_LINES_A_TURN]:
            line = self._lines.pop(limit)
            self._forget_gone(line)
            if line.waiting:
                self._lines[limit] = line  # behind the other lines
                self._turn(line)

    def why_waits(self, record: GangRecord, spec: JobSpec) -> str:
        """Return empty text if the gang may submit this job now. If another gang of its namespace waits for the same
        limit of Slurm and asks for the same, and it is not this gang's turn, put the gang into their line and return
        the reason.
        """
        line = self._lines.get(_limit(record, spec))
        if line is None or record.id in line.asking or _request(spec) not in line.alike:
            return ""
        self._join(line, record, spec)
        return line.why

    def refused(self, record: GangRecord, spec: JobSpec, why: str) -> None:
        """Put a gang into the line for a limit, because Slurm has refused its job for this limit. `why`: Slurm's
        reason. If it is the oldest gang of the line, another gang may submit instead.
        """
        line = self._lines.setdefault(_limit(record, spec), _Line())
        line.why = why
        line.asking.discard(record.id)
        self._join(line, record, spec)
        if record.id == line.oldest:
            self._ask_another(line, record.id)

    def left(self, record: GangRecord, spec: JobSpec, *, is_taken: bool) -> None:
        """Take a gang out of the line in which it waits for a limit of Slurm. `is_taken`: Slurm has accepted its job,
        so the next gang of the line may submit.
        """
        line = self._lines.get(_limit(record, spec))
        request = self._leave(line, record.id) if line is not None else None
        if line is None or request is None or not is_taken:
            return
        if request in line.alike:  # there is room for it, and perhaps for the next gang with this request
            line.alike.move_to_end(request, last=False)
        self._turn(line)

    def _join(self, line: _Line, record: GangRecord, spec: JobSpec) -> None:
        request = _request(spec)
        if line.request_of.get(record.id) != request:
            self._leave(line, record.id)
            pods = record.recognised.gang.members if record.recognised.gang is not None else ()
            since = min((pod.metadata.creation_timestamp for pod in pods), default="")
            line.waiting[record.id], line.request_of[record.id] = (since, record.seen_at), request
            line.alike.setdefault(request, OrderedDict())[record.id] = None
        record.retry_at, record.refused = _NEVER, line.why

    def _turn(self, line: _Line) -> None:
        """Let the oldest gang of the line submit. A gang that has not submitted since it was last allowed to keeps no
        other one waiting. In the line stand the gangs whose jobs Slurm has refused for one limit.
        """
        if (oldest := line.oldest) is not None:
            self._ask(line, oldest)

    def _ask_another(self, line: _Line, oldest: GangId) -> None:
        for request, alike in line.alike.items():
            id = next((id for id in alike if id not in line.asking and id != oldest), None)
            if id is not None:
                alike.move_to_end(id)
                line.alike.move_to_end(request)
                self._ask(line, id)
                return

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

    def _leave(self, line: _Line, id: GangId) -> JobSpec | None:
        """Take the gang out of the line. Return what it asked for there; None if it was not in the line."""
        line.asking.discard(id)
        request = line.request_of.pop(id, None)
        if request is not None:
            del line.waiting[id], line.alike[request][id]
            if not line.alike[request]:
                del line.alike[request]
        return request


def _limit(record: GangRecord, spec: JobSpec) -> _Limit:
    return (record.id.namespace, spec.user, spec.account, spec.qos, spec.partition)


def _request(spec: JobSpec) -> JobSpec:
    """Return what a job asks for, without what only names it and the nodes to choose from: no limit depends on that."""
    return replace(spec, name="", comment="", excluded_nodes=(), required_nodes=())


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
