"""What a long walk leaves to others."""

import asyncio
import itertools

from sunkpy.runtime.turns import in_turns


async def test_others_have_a_turn_while_many_items_are_walked_over():
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    clock = itertools.count(step=0.002)  # each look comes 2 ms after the one before
    found = [item async for item in in_turns(range(100), clock=lambda: next(clock))]
    task.cancel()
    assert found == list(range(100))
    assert 10 <= turns <= 25, "each 10 ms"
