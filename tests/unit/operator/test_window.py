import asyncio

import pytest

from sunkpy.kube import errors
from sunkpy.operator.window import MOST_AT_ONCE, work_through


class Writes:
    """Each write waits until all that may go beside it are under way, so that the widths are exact."""

    def __init__(self, refuse_from=10**9, error=None):
        self.under_way = 0
        self.widths = []
        self.done = []
        self.refuse_from = refuse_from
        self.error = error

    async def __call__(self, item):
        self.under_way += 1
        for _ in range(3):
            await asyncio.sleep(0)
        self.widths.append(self.under_way)
        self.under_way -= 1
        if item >= self.refuse_from:
            if self.error:
                raise self.error
            return False
        self.done.append(item)
        return True


async def test_it_starts_with_one_and_widens_with_each_success_up_to_the_most():
    writes = Writes()
    await work_through(range(200), writes, at_first=1)
    assert writes.widths[0] == 1
    assert max(writes.widths) == MOST_AT_ONCE
    assert sorted(writes.done) == list(range(200))


async def test_what_is_trusted_starts_wide():
    writes = Writes()
    await work_through(range(100), writes, at_first=MOST_AT_ONCE)
    assert writes.widths[0] == MOST_AT_ONCE


@pytest.mark.parametrize("count", [0, 1, 5])
async def test_a_few_are_all_done(count):
    writes = Writes()
    await work_through(range(count), writes, at_first=MOST_AT_ONCE)
    assert sorted(writes.done) == list(range(count))


async def test_what_everybody_refuses_is_refused_once():
    writes = Writes(refuse_from=0)
    await work_through(range(1000), writes, at_first=1)
    assert len(writes.widths) == 1


async def test_a_failure_stops_what_has_not_begun_and_lets_the_rest_end():
    away = errors.Unavailable("POST", status=0, message="away")
    writes = Writes(refuse_from=50, error=away)
    with pytest.raises(errors.Unavailable):
        await work_through(range(1000), writes, at_first=MOST_AT_ONCE)
    assert writes.under_way == 0
    assert set(range(50)) <= set(writes.done)
    assert len(writes.widths) < 50 + 2 * MOST_AT_ONCE
