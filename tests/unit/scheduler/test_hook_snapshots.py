"""Hooks that wait for the same gang share what they see of it, and miss no change."""

import asyncio

import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.scheduler.hooks.answers import HookSnapshots
from sunkpy.scheduler.record import GangRecord


@pytest.fixture
def record():
    return GangRecord(id=GangId(namespace="default", name="web", uid="u"), seen_at=0.0)


async def test_all_that_a_change_has_woken_see_the_gang_once(record):
    looks = []

    def snapshot(seen):
        looks.append(seen)
        return Snapshot(id=seen.id, gang=None)

    snapshots = HookSnapshots(snapshot)

    async def wait():
        first = snapshots.new(record)
        await record.wait_for_change(since=first.changes, timeout_s=60.0)
        return first, snapshots.shared(record)

    waiting = [asyncio.ensure_future(wait()) for _ in range(100)]
    await asyncio.sleep(0)
    assert len(looks) == 100  # each has told something
    record.fire()
    found = await asyncio.gather(*waiting)
    assert len(looks) == 101
    assert len({id(second) for _, second in found}) == 1


async def test_what_was_seen_before_a_change_or_in_another_turn_is_not_shown_again(record):
    snapshots = HookSnapshots(lambda seen: Snapshot(id=seen.id, gang=None))
    before = snapshots.new(record)
    assert snapshots.shared(record) is before
    record.fire()
    after = snapshots.shared(record)
    assert after is not before
    await asyncio.sleep(0)
    assert snapshots.shared(record) is not after
