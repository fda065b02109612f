"""What a long walk leaves to others."""

import asyncio

from sunkpy.runtime.turns import in_turns


async def test_others_have_a_turn_while_many_items_are_walked_over():
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    assert [item async for item in in_turns(range(1000))] == list(range(1000))
    task.cancel()
    assert turns >= 5
