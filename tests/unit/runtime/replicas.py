"""Replicas that run for leader in virtual time, over a lock that answers late, never, or when nobody waits any more."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from sunkpy.runtime.election import Election, Identity, LeadershipLost, LeaseRecord, LockUnavailable

T = TypeVar("T")

DURATION_S = 12.0
FOREVER_S = 10_000.0


class Ways(msgspec.Struct, frozen=True):
    """How long a call is on its way to the lock, and its answer on the way back."""

    there_s: float = 0.0
    back_s: float = 0.0


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """`rate`: seconds of its own clock in a second. `winds_up_s`: how long its work goes on after it was cancelled."""

    name: str
    rate: float = 1.0
    ways: Sequence[Ways] = (Ways(),)
    winds_up_s: float = 0.0
    is_restarted_after_s: float = 0.5


class Store:
    """The record, as compare-and-swap keeps it."""

    def __init__(self) -> None:
        self.record: LeaseRecord | None = None
        self._versions = itertools.count(1)

    def read(self) -> LeaseRecord | None:
        return self.record

    def write(self, holder: str, duration_s: float, previous: LeaseRecord | None) -> bool:
        if (previous and previous.version) != (self.record and self.record.version):
            return False
        self.record = LeaseRecord(holder=holder, version=str(next(self._versions)), duration_s=duration_s)
        return True


class DistantLock:
    """The store as one process reaches it: a request that has left arrives, whether or not anybody waits for it.

    A clock that runs at another rate makes each time that its process knows longer or shorter; so does this lock.
    """

    def __init__(self, store: Store, ways: Iterator[Ways], *, rate: float = 1.0) -> None:
        self._store = store
        self._rate = rate
        self._ways = ways
        self._arriving: set[asyncio.Future[object]] = set()
        self.is_broken = False

    async def read(self) -> LeaseRecord | None:
        found = await self._travel(self._store.read)
        return found and msgspec.structs.replace(found, duration_s=found.duration_s / self._rate)

    async def write(self, *, holder: str, duration_s: float, previous: LeaseRecord | None) -> bool:
        return await self._travel(lambda: self._store.write(holder, duration_s * self._rate, previous))

    async def _travel(self, call: Callable[[], T]) -> T:
        if self.is_broken:
            raise LockUnavailable("refused")
        ways = next(self._ways)

        async def arrive() -> T:
            await asyncio.sleep(ways.there_s)
            return call()

        arriving = asyncio.ensure_future(arrive())
        self._arriving.add(arriving)
        answer = await asyncio.shield(arriving)
        await asyncio.sleep(ways.back_s)
        return answer


class Timer:
    """A watchdog that tells instead of ending the process of the tests."""

    def __init__(self, bite: Callable[[], None]) -> None:
        self._bite = bite
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_armed(self) -> bool:
        return self._timer is not None and not self._timer.cancelled()

    def arm(self, after_s: float) -> None:
        self.disarm()
        self._timer = asyncio.get_running_loop().call_later(after_s, self._bite)

    def disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Diary:
    """Who worked when, as (name, from, to) in the order of their ends."""

    def __init__(self) -> None:
        self.terms: list[tuple[str, float, float]] = []
        self._since: dict[str, float] = {}

    @property
    def at_work(self) -> list[str]:
        return sorted(self._since)

    def begins(self, name: str) -> None:
        self._since[name] = asyncio.get_running_loop().time()

    def ends(self, name: str) -> None:
        if name in self._since:
            self.terms.append((name, self._since.pop(name), asyncio.get_running_loop().time()))

    @property
    def worst_overlap_s(self) -> float:
        """For how long any two were at work at once; below 0: the shortest pause between two."""
        pairs = itertools.combinations(self.terms, 2)
        return max((min(a[2], b[2]) - max(a[1], b[1]) for a, b in pairs if a[0] != b[0]), default=-FOREVER_S)


class Process:
    """One life of a replica. `kill` ends it as kill -9 does; its watchdog does so, too."""

    def __init__(self, store: Store, habits: Habits, ways: Iterator[Ways], diary: Diary) -> None:
        self.habits = habits
        self.lock = DistantLock(store, ways, rate=habits.rate)
        self.watchdog = Timer(self._bite)
        self.was_bitten = False
        self._diary = diary
        self._killed = asyncio.Event()
        self.election = Election(
            self.lock,
            Identity(name=habits.name),
            watchdog=self.watchdog,
            duration_s=DURATION_S / habits.rate,
            clock=lambda: asyncio.get_running_loop().time(),
        )

    def _bite(self) -> None:
        self.was_bitten = True
        self.kill()

    def kill(self) -> None:
        self.lock.is_broken = True
        self._diary.ends(self.habits.name)
        self._killed.set()

    async def live(self) -> None:
        """Run until the replica ends by itself or is killed."""
        try:
            await _first_of(self._run(), self._killed.wait())
        finally:
            self.watchdog.disarm()

    async def _run(self) -> None:
        with contextlib.suppress(LeadershipLost):
            await self.election.run(self._work)

    async def _work(self) -> None:
        self._diary.begins(self.habits.name)
        try:
            await asyncio.Event().wait()
        finally:
            await _first_of(asyncio.sleep(self.habits.winds_up_s), self._killed.wait())
            if not self._killed.is_set():
                self._diary.ends(self.habits.name)


class Replica:
    """Started again whenever it has ended, under the same name, as a container in its pod is."""

    def __init__(self, store: Store, habits: Habits, diary: Diary) -> None:
        self._ways = itertools.cycle(habits.ways)
        self._make = lambda: Process(store, habits, self._ways, diary)
        self.process = self._make()

    async def live(self) -> None:
        """Run until cancelled."""
        while True:
            await self.process.live()
            await asyncio.sleep(self.process.habits.is_restarted_after_s)
            self.process = self._make()


async def _first_of(*waits: Awaitable[object]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def living(*habits: Habits, store: Store | None = None) -> AsyncIterator[tuple[Diary, list[Replica]]]:
    """Replicas that compete for one lock; at the end each is killed."""
    diary, store = Diary(), store or Store()
    replicas = [Replica(store, each, diary) for each in habits]
    lives = [asyncio.ensure_future(replica.live()) for replica in replicas]
    try:
        yield diary, replicas
    finally:
        for replica in replicas:
            replica.process.kill()
        for life in lives:
            life.cancel()
