"""Leader election: one of several replicas works, the others stand by.

Source of the rules: client-go's leaderelection. Clocks are never compared, only how long something took.

    0         1/4        1/2        3/4         7/8          1   of the holder's lease
    ├──────────┼──────────┼──────────┼───────────┼───────────┤
    renewal    renews                work is     the process  another takes the lease: it has seen no change
    was sent   each 1/4              cancelled   is ended     for that long

* Others count from the moment when they *see* a renewal, the leader from the moment when it *sent* the renewal, which
  is earlier. So no delay of any call makes two of them work at once, and a renewal whose answer was lost only makes the
  others wait longer.
* The last eighth is for clocks of different speed. A standby waits for the duration that the holder wrote, not for its
  own, so that replicas with different settings agree.
* A call gets a quarter of the lease and never more than what is left of it, so that one connection that hangs does not
  use up the lease.
* From 3/4 on `remaining_s` is 0: no more writes (see `sunkpy.runtime.deadline`). Work that does not stop when it is
  cancelled is stopped by the watchdog.
* A leader that lost its lease raises `LeadershipLost`, and the process ends: it must not go on with half of its work.
* A process whose name holds the lease already takes it at once, without a wait. So two living processes must not
  have the same name. The name of a pod is safe: its container is started again only after the previous one has ended.
* A lease that somebody deletes counts as held until its time is over, for all who have seen it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import msgspec
import structlog

from sunkpy.runtime.watchdog import Watchdog

T = TypeVar("T")

# Parts of a lease.
_RENEW: Final = 1 / 4
_CALL: Final = 1 / 4
_RETRY: Final = 1 / 12
_WORK: Final = 3 / 4
_LIVE: Final = 7 / 8


class LockUnavailable(Exception):
    """The lock could not be read or written, so it is not known which replica leads."""


class LeadershipLost(Exception):
    """Another replica leads, or the lease could not be renewed in time."""


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a lease: its holder (empty if it is free), for how long a renewal is valid, and a version, which
    changes with each write.
    """

    holder: str
    version: str
    duration_s: float
    transitions: int = 0
    acquired: str = ""


class LeaseLock(Protocol):
    """The object in which the lease is stored. Both methods raise LockUnavailable if it cannot be read or written."""

    async def read(self) -> LeaseRecord | None:
        """Return the lease's record; None if there is none."""

    async def write(self, *, holder: str, duration_s: float, previous: LeaseRecord | None) -> bool:
        """Write this holder and duration into the lease, if its record still is `previous`. Return False if it is not:
        then nothing was written.
        """


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that takes part in a leader election.

    `name` belongs to one living process at a time; `address` tells where the leader can be reached.
    """

    name: str
    address: str = ""

    def __str__(self) -> str:
        return f"{self.name}/{self.address}" if self.address else self.name

    @classmethod
    def parse(cls, text: str) -> Identity:
        """Return the identity that stands in a lease as its holder; the inverse of `str`."""
        name, _, address = text.partition("/")
        return cls(name=name, address=address)


class Election:
    """Waits until this process leads, then works, and gives the lease back at the end.

    `duration_s` is how long the lease lasts; all other times follow from it. `leader` is the identity that was last
    seen to lead (this process included), or None.
    """

    def __init__(
        self,
        lock: LeaseLock,
        identity: Identity,
        *,
        watchdog: Watchdog,
        duration_s: float = 12.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lock = lock
        self._identity = identity
        self._watchdog = watchdog
        self._duration_s = duration_s
        self._clock = clock
        self._works_until_s = -math.inf
        self._log = structlog.get_logger("leader").bind(identity=str(identity))
        self.leader: Identity | None = None

    @property
    def is_leader(self) -> bool:
        """True if this process leads and may work."""
        return self.remaining_s() > 0

    def remaining_s(self) -> float:
        """Return for how many seconds this process may work and write; 0 if it does not lead. This is the `Deadline` of
        its writes.
        """
        return max(0.0, self._works_until_s - self._clock())

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Stand by until elected, then run `work` until it ends, is cancelled or leadership is lost.

        Raises:
            LeadershipLost: `work` has been cancelled; end the process soon, or the watchdog ends it.
        """
        await self._acquire()
        self._log.info("leading")
        working = asyncio.ensure_future(work())
        renewing = asyncio.ensure_future(self._renew())
        try:
            done, _ = await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            renewing.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)
            if self.is_leader:
                self._works_until_s = -math.inf
                self._watchdog.disarm()
                await asyncio.shield(self._release())
        for task in done:
            task.result()

    # ------------------------------------------------------------ standing by

    async def _acquire(self) -> None:
        seen: LeaseRecord | None = None
        seen_at_s = self._clock()
        while True:
            try:
                record = await self._call(self._lock.read())
                if record is not None and (seen is None or record.version != seen.version):
                    seen, seen_at_s = record, self._clock()
                if self._may_take(seen, age_s=self._clock() - seen_at_s) and await self._take(record):
                    return
            except LockUnavailable as error:
                self._log.warning("cannot take part in the leader election yet", error=str(error))
            await asyncio.sleep(_RETRY * self._duration_s)

    def _may_take(self, seen: LeaseRecord | None, *, age_s: float) -> bool:
        if seen is None or not seen.holder:
            return True
        self.leader = Identity.parse(seen.holder)
        return self._is_ours(seen) or age_s > (seen.duration_s or self._duration_s)

    # ---------------------------------------------------------------- leading

    async def _renew(self) -> None:
        pause_s = _RENEW * self._duration_s
        while True:
            await asyncio.sleep(min(pause_s, self.remaining_s()))
            if not self.is_leader:
                raise LeadershipLost(f"the lease was not renewed for {_WORK * self._duration_s:g} s")
            pause_s = (_RENEW if await self._is_renewed() else _RETRY) * self._duration_s

    async def _is_renewed(self) -> bool:
        try:
            record = await self._call(self._lock.read())
            if record is None or not self._is_ours(record):
                self._works_until_s = -math.inf
                raise LeadershipLost(f"the lease is held by {(record and record.holder) or 'nobody'}")
            return await self._take(record)
        except LockUnavailable as error:
            self._log.warning("lease not renewed", error=str(error), remaining_s=round(self.remaining_s(), 1))
            return False

    def _is_ours(self, record: LeaseRecord) -> bool:
        return Identity.parse(record.holder).name == self._identity.name

    async def _release(self) -> None:
        """Give the lease back, so that another replica can take it at once. This is called only after the work has
        ended.
        """
        try:
            record = await self._call(self._lock.read())
            if record is not None and self._is_ours(record):
                await self._call(self._lock.write(holder="", duration_s=1, previous=record))
        except LockUnavailable as error:
            self._log.warning("lease not released; it expires by itself", error=str(error))

    # ----------------------------------------------------------------- the lock

    async def _take(self, previous: LeaseRecord | None) -> bool:
        """Take or renew the lease; return whether that worked. Its time counts from before the request was sent,
        because no other replica can have seen it earlier.
        """
        sent_at_s = self._clock()
        write = self._lock.write(holder=str(self._identity), duration_s=self._duration_s, previous=previous)
        taken = await self._call(write)
        if taken:
            self.leader = self._identity
            self._works_until_s = sent_at_s + _WORK * self._duration_s
            self._watchdog.arm(sent_at_s + _LIVE * self._duration_s - self._clock())
        return taken

    async def _call(self, call: Awaitable[T]) -> T:
        limit_s = _CALL * self._duration_s
        if self._works_until_s > -math.inf:  # elected: a call never outlasts the lease
            limit_s = min(limit_s, self.remaining_s())
        try:
            async with asyncio.timeout(limit_s):
                return await call
        except TimeoutError as error:
            raise LockUnavailable(f"no answer within {limit_s:.1f} s") from error
