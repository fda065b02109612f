"""Leader election: one of several replicas works, the others stand by.

Source of the rule: client-go's leaderelection. The lock counts as free when it has not changed for its duration by our
own clock. A leader that cannot renew in time raises `LeadershipLost`, and the process ends: half a leader is worse
than none. A restarted process takes its own old lease at once (a pod's name is the identity, and its previous
container is dead).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec
import structlog


class LockUnavailable(Exception):
    """The lock could not be read or written: nothing is known of who leads."""


class LeadershipLost(Exception):
    """Somebody else leads, or the lease could not be renewed in time."""


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the lock says: holder (empty when free) and a version that changes with each write."""

    holder: str
    version: str
    transitions: int = 0
    acquired: str = ""


class Lock(Protocol):
    """Where the lease is kept. Both methods raise LockUnavailable."""

    async def read(self) -> LeaseRecord | None:
        """The record, or None when nobody ever held the lock."""

    async def write(self, *, holder: str, duration_s: int, previous: LeaseRecord | None) -> bool:
        """Replace the record if it still is `previous`; False when it is not."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who stands for election.

    `name` is unique among the replicas and outlives a restart; `address` tells where the leader can be reached.
    """

    name: str
    address: str = ""

    def __str__(self) -> str:
        return f"{self.name}/{self.address}" if self.address else self.name

    @classmethod
    def parse(cls, text: str) -> Identity:
        """The identity that a lease's holder names; the inverse of `str`."""
        name, _, address = text.partition("/")
        return cls(name=name, address=address)


class Election:
    """Runs for leader, then works, and gives the lease back at the end.

    The lease is free for others after `duration_s` without a change; it is renewed each `renew_s`, tried each
    `retry_s`. `leader` is the identity that was last seen to lead (ours included), or None.
    """

    def __init__(
        self,
        lock: Lock,
        identity: Identity,
        *,
        duration_s: int = 12,
        renew_s: float = 3.0,
        retry_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lock = lock
        self._identity = identity
        self._duration_s = duration_s
        self._renew_s = renew_s
        self._retry_s = retry_s
        self._clock = clock
        self._log = structlog.get_logger("leader").bind(identity=str(identity))
        self.leader: Identity | None = None
        self.is_leader = False

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Stand by until elected, then run `work` until it ends, is cancelled or leadership is lost.

        Raises:
            LeadershipLost: `work` has been cancelled; end the process.
        """
        await self._acquire()
        self._log.info("leading")
        self.is_leader = True
        try:
            await self._work_while_renewing(work)
        finally:
            self.is_leader = False
            await asyncio.shield(self._release())

    async def _work_while_renewing(self, work: Callable[[], Awaitable[None]]) -> None:
        working = asyncio.ensure_future(work())
        renewing = asyncio.ensure_future(self._renew())
        try:
            done, _ = await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, renewing):
                task.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)
        for task in done:
            task.result()

    async def _acquire(self) -> None:
        seen: LeaseRecord | None = None
        seen_at_s = self._clock()
        while True:
            try:
                record = await self._lock.read()
                if record is None or seen is None or record.version != seen.version:
                    seen, seen_at_s = record, self._clock()
                if self._may_take(record, age_s=self._clock() - seen_at_s) and await self._write(record):
                    return
            except LockUnavailable as error:
                self._log.warning("cannot run for leader yet", error=str(error))
            await asyncio.sleep(self._retry_s)

    def _may_take(self, record: LeaseRecord | None, *, age_s: float) -> bool:
        if record is None or not record.holder:
            return True
        self.leader = Identity.parse(record.holder)
        return self.leader.name == self._identity.name or age_s > self._duration_s

    async def _write(self, previous: LeaseRecord | None) -> bool:
        taken = await self._lock.write(holder=str(self._identity), duration_s=self._duration_s, previous=previous)
        if taken:
            self.leader = self._identity
        return taken

    async def _renew(self) -> None:
        renewed_at_s = self._clock()
        while True:
            await asyncio.sleep(self._renew_s)
            try:
                record = await self._lock.read()
                if record is None or Identity.parse(record.holder).name != self._identity.name:
                    raise LeadershipLost(f"the lease is held by {record.holder if record else 'nobody'}")
                if await self._write(record):
                    renewed_at_s = self._clock()
            except LockUnavailable as error:
                self._log.warning("lease not renewed", error=str(error))
            if self._clock() - renewed_at_s > self._duration_s - self._renew_s:
                raise LeadershipLost(f"the lease was not renewed for {self._duration_s - self._renew_s:.0f} s")

    async def _release(self) -> None:
        try:
            record = await self._lock.read()
            if record is not None and Identity.parse(record.holder).name == self._identity.name:
                await self._lock.write(holder="", duration_s=1, previous=record)
        except LockUnavailable as error:
            self._log.warning("lease not released; it expires by itself", error=str(error))
