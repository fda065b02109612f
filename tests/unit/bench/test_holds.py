"""How the benches see that a loop is held."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.bench import holds


async def test_a_turn_that_holds_the_loop_is_noted_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(asyncio.Handle, "_run", asyncio.Handle._run)
    holds.watch(holds.log)

    async def greedy() -> None:
        until_s = time.thread_time() + 0.03
        while time.thread_time() < until_s:
            pass

    await asyncio.create_task(greedy())
    longest = holds.longest(holds.read(f"{{}}\n{capsys.readouterr().err}"))
    assert longest.held_s >= 0.03
    assert "greedy" in longest.what


def test_of_a_loop_that_nobody_held_there_is_nothing_to_read():
    assert holds.longest(holds.read('{"event": "up"}\n')).held_s == 0
