"""What the bench sends at once, and how it sees that a loop is held."""

import asyncio
import time

import pytest

from sunkpy.core import names
from tests.bench.burst import watched
from tests.bench.burst.load import Wave


def test_a_wave_of_gangs_is_as_many_pods_as_its_jobs_have_tasks():
    wave = Wave(name="gang", count=24, gang=8)
    gangs = [body["metadata"]["annotations"][names.ANNOTATION_GANG] for body in wave.bodies]
    assert {gang: gangs.count(gang) for gang in gangs} == {"gang-0": 8, "gang-1": 8, "gang-2": 8}
    assert [job.tasks for job in wave.jobs] == [8, 8, 8]


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
