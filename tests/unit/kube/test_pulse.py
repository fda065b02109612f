"""A leader that gets no answers says so, and one that has them does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from sunkpy.kube.client import Kube
from sunkpy.kube.pulse import SILENT_S, Pulse
from tests.doubles.apiserver import refusal
from tests.doubles.serving import Changes, answering


class Side:
    """An apiserver that may be silent, and the time of the process that asks it."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.now = 0.0
        self.asked = 0
        self.answers = asyncio.Event()
        self.answers.set()
        self.status = 200

    async def handle(self, _: web.Request) -> web.StreamResponse:
        self.asked += 1
        self.changes.note()
        await self.answers.wait()
        return web.json_response({}) if self.status == 200 else refusal(self.status, "Refused")

    @asynccontextmanager
    async def followed(self, folder: Path) -> AsyncIterator[Pulse]:
        async with answering(self.handle, folder) as kubeconfig, await Kube.connect(kubeconfig) as kube:
            pulse = Pulse(kube, clock=lambda: self.now)
            task = asyncio.create_task(pulse.follow(each_s=0.01))
            await self.changes.until(lambda: self.asked)
            yield pulse
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_leader_that_gets_no_answers_is_not_alive_until_it_gets_one(tmp_path: Path) -> None:
    side = Side()
    async with side.followed(tmp_path) as pulse:
        assert pulse.problem() is None
        side.answers.clear()
        before = side.asked
        await side.changes.until(lambda: side.asked > before)
        side.now += SILENT_S
        assert pulse.problem() is None
        side.now += 1.0
        assert pulse.problem() == "no request was answered for 11 s, although the lease is renewed"
        side.answers.set()
        await side.changes.until(lambda: pulse.problem() is None)
        side.answers.clear()
        side.now += 100.0
    assert pulse.problem() is None, "nobody asks any more"


@pytest.mark.parametrize(("status", "is_answer"), [(403, True), (404, True), (429, True), (503, False)])
async def test_also_a_refusal_is_an_answer(tmp_path: Path, status: int, is_answer: bool) -> None:
    side = Side()
    side.status = status
    async with side.followed(tmp_path) as pulse:
        side.now += 100.0
        before = side.asked
        await side.changes.until(lambda: side.asked > before + 2)
        assert (pulse.problem() is None) is is_answer
