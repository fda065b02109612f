"""Hooks that wait for the same gang share what they see of it, and miss no change."""

import asyncio

import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.view import GangView
from sunkpy.scheduler.entries import GangEntry
from sunkpy.scheduler.moments import Moments


@pytest.fixture
def entry():
    return GangEntry(id=GangId(namespace="default", name="web", uid="u"), seen_at=0.0)


async def test_all_that_a_change_has_woken_see_the_gang_once(entry):
    looks = []

    def view(seen):
        looks.append(seen)
        return GangView(id=seen.id, gang=None)

    moments = Moments(view)

    async def wait():
        changed = entry.next_change()
        first = moments.new(entry)
        await changed.wait_for(60.0)
        return first, moments.same(entry)

    waiting = [asyncio.ensure_future(wait()) for _ in range(100)]
    await asyncio.sleep(0)
    assert len(looks) == 100  # each has told something
    entry.fire()
    found = await asyncio.gather(*waiting)
    assert len(looks) == 101
    assert len({id(second) for _, second in found}) == 1


async def test_what_was_seen_before_a_change_or_in_another_turn_is_not_shown_again(entry):
    moments = Moments(lambda seen: GangView(id=seen.id, gang=None))
    before = moments.new(entry)
    assert moments.same(entry) is before
    entry.fire()
    after = moments.same(entry)
    assert after is not before
    await asyncio.sleep(0)
    assert moments.same(entry) is not after
