"""How the bench sees that a loop is held."""

import asyncio
import time

import pytest

from tests.bench.burst import watched


async def test_a_turn_that_holds_the_loop_is_noted_by_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asyncio.Handle, "_run", asyncio.Handle._run)
    notes: list[watched.Hold] = []
    watched.watch(notes)

    async def greedy() -> None:
        until_s = time.thread_time() + 0.03
        while time.thread_time() < until_s:
            pass

    await asyncio.create_task(greedy())
    assert any(note.held_s >= 0.03 and "greedy" in note.what for note in notes)
