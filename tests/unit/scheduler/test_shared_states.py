"""Asked for by many at once, no job is missing from the answer to who wants to know of it: it would seem forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sunkpy.core.model.states import JobId, JobStates
from sunkpy.scheduler.hooks.gate import MOST_IDS, SharedStates

RUNNING = frozenset({"RUNNING"})
KNOWN = {JobId(n): RUNNING for n in range(1, MOST_IDS + 10)}


class Slurm:
    """Answers its questions only when a test lets it."""

    def __init__(self) -> None:
        self.asked: list[Sequence[JobId]] = []
        self.answers = asyncio.Semaphore(0)

    async def ask(self, jobs: Sequence[JobId]) -> JobStates:
        self.asked.append(jobs)
        await self.answers.acquire()
        return {job: KNOWN[job] for job in jobs or KNOWN if job in KNOWN}


async def in_turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def wait_for(*calls: asyncio.Task[tuple[dict[JobId, frozenset[str]], float]], slurm: Slurm) -> list[set[JobId]]:
    slurm.answers.release()
    await in_turn()
    slurm.answers.release()
    return [set(states) for states, _ in await asyncio.wait_for(asyncio.gather(*calls), 5)]


async def test_who_comes_as_a_question_is_sent_and_who_comes_later_are_told_of_their_jobs() -> None:
    slurm = Slurm()
    states = SharedStates(slurm.ask)
    first, at_once = (asyncio.ensure_future(states.get({JobId(n)})) for n in (1, 2))
    await in_turn()
    later = asyncio.ensure_future(states.get({JobId(3), JobId(9999)}))
    await in_turn()
    assert await wait_for(first, at_once, later, slurm=slurm) == [{1}, {2}, {3}]
    assert len(slurm.asked) == 2


async def test_who_goes_while_asking_takes_nobody_elses_jobs_along() -> None:
    slurm = Slurm()
    states = SharedStates(slurm.ask)
    busy = asyncio.ensure_future(states.get({JobId(1)}))
    await in_turn()
    goes, stays = (asyncio.ensure_future(states.get({JobId(n)})) for n in (2, 3))
    await in_turn()
    slurm.answers.release()
    await in_turn()
    last = asyncio.ensure_future(states.get({JobId(4)}))
    await in_turn()
    goes.cancel()
    await in_turn()
    assert await wait_for(busy, stays, last, slurm=slurm) == [{1}, {3}, {4}]
    assert slurm.asked[-1] == [3, 4], "of nobody who went"


async def test_of_very_many_jobs_all_are_asked_for() -> None:
    slurm = Slurm()
    slurm.answers.release()
    found, _ = await SharedStates(slurm.ask).get(set(KNOWN))
    assert (found, slurm.asked) == (KNOWN, [()])
