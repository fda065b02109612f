from __future__ import annotations

import asyncio

import pytest

from sunkpy.runtime.election import Election, Identity, LeadershipLost, LeaseRecord, LockUnavailable


class MemoryLock:
    """A lock in memory with the compare-and-swap of a Lease."""

    def __init__(self) -> None:
        self.record: LeaseRecord | None = None
        self.broken = False
        self.reads = 0

    async def read(self) -> LeaseRecord | None:
        self.reads += 1
        if self.broken:
            raise LockUnavailable("unreachable")
        return self.record

    async def write(self, *, holder: str, duration_s: int, previous: LeaseRecord | None) -> bool:
        if self.broken:
            raise LockUnavailable("unreachable")
        if previous != self.record:
            return False
        version = str(int(self.record.version) + 1 if self.record else 1)
        self.record = LeaseRecord(holder=holder, version=version)
        return True


def make_election(lock: MemoryLock, name: str, *, duration_s: int = 1) -> Election:
    return Election(lock, Identity(name=name, address="10.0.0.1"), duration_s=duration_s, renew_s=0.02, retry_s=0.01)


async def test_only_one_of_two_leads_and_the_other_takes_over_when_it_ends() -> None:
    lock = MemoryLock()
    leading: list[str] = []
    turns = {name: asyncio.Event() for name in "ab"}
    ends = {name: asyncio.Event() for name in "ab"}

    async def work(name: str) -> None:
        leading.append(name)
        turns[name].set()
        await ends[name].wait()

    elections = {name: make_election(lock, name) for name in "ab"}
    first = asyncio.ensure_future(elections["a"].run(lambda: work("a")))
    await asyncio.wait_for(turns["a"].wait(), 5)
    second = asyncio.ensure_future(elections["b"].run(lambda: work("b")))
    while elections["b"].leader is None:  # noqa: ASYNC110  the loop under test sleeps by itself
        await asyncio.sleep(0)
    assert leading == ["a"]
    assert elections["b"].leader == Identity(name="a", address="10.0.0.1")
    ends["a"].set()
    await asyncio.wait_for(turns["b"].wait(), 5)
    assert leading == ["a", "b"]
    ends["b"].set()
    await asyncio.gather(first, second)
    assert lock.record is not None
    assert lock.record.holder == ""


async def test_a_lease_that_does_not_change_is_free_after_its_duration_by_our_own_clock() -> None:
    now_s = 100.0
    lock = MemoryLock()
    lock.record = LeaseRecord(holder="b/10.0.0.2", version="7")
    leading = asyncio.Event()

    async def work() -> None:
        leading.set()

    async def read_twice() -> None:
        before = lock.reads
        while lock.reads < before + 2:  # noqa: ASYNC110  the loop under test sleeps by itself
            await asyncio.sleep(0)

    election = Election(lock, Identity(name="a"), duration_s=12, retry_s=0.001, clock=lambda: now_s)
    run = asyncio.ensure_future(election.run(work))
    await asyncio.wait_for(read_twice(), 5)
    now_s += 12
    await asyncio.wait_for(read_twice(), 5)
    lock.record = LeaseRecord(holder="b/10.0.0.2", version="8")  # renewed: the wait begins again
    await asyncio.wait_for(read_twice(), 5)
    now_s += 12
    await asyncio.wait_for(read_twice(), 5)
    assert not leading.is_set()
    now_s += 0.1
    await asyncio.wait_for(run, 5)
    assert leading.is_set()


async def test_a_restarted_process_takes_its_own_lease_at_once() -> None:
    lock = MemoryLock()
    lock.record = LeaseRecord(holder="a/10.0.0.9", version="7")
    done = asyncio.Event()

    async def work() -> None:
        done.set()

    await asyncio.wait_for(make_election(lock, "a", duration_s=3600).run(work), 5)
    assert done.is_set()


async def test_a_leader_that_is_displaced_stops_working_and_says_so() -> None:
    lock = MemoryLock()
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    run = asyncio.ensure_future(make_election(lock, "a").run(work))
    await asyncio.wait_for(started.wait(), 5)
    lock.record = LeaseRecord(holder="b", version="99")
    with pytest.raises(LeadershipLost, match="held by b"):
        await asyncio.wait_for(run, 5)
    assert cancelled.is_set()
    assert lock.record.holder == "b"


async def test_a_leader_that_cannot_renew_stops_before_its_lease_ends() -> None:
    lock = MemoryLock()
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    run = asyncio.ensure_future(make_election(lock, "a", duration_s=0).run(work))
    await asyncio.wait_for(started.wait(), 5)
    lock.broken = True
    with pytest.raises(LeadershipLost, match="not renewed"):
        await asyncio.wait_for(run, 5)


async def test_an_error_of_the_work_is_not_swallowed() -> None:
    async def work() -> None:
        raise ValueError("broken work")

    with pytest.raises(ValueError, match="broken work"):
        await asyncio.wait_for(make_election(MemoryLock(), "a").run(work), 5)
