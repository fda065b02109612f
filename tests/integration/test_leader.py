"""Real processes that lead: what becomes of them, and of their writes, when calls hang or they are frozen."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering
from tests.integration.leader import LEASE_S

POD = {"metadata": {"name": "a", "namespace": "d"}, "spec": {}}
ENDED = (1, -signal.SIGSEGV)  # the watchdog may stumble over frames in motion


class Cluster:
    """An apiserver with a pod, which notes who wrote to it last and can be made to hang."""

    def __init__(self) -> None:
        self.api = Apiserver()
        self.api.put("pods", POD)
        self.hangs = False
        self.writers: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.hangs:
            await asyncio.Event().wait()
        answer = await self.api.handle(request)
        if request.method == "PATCH":
            self.writers.append(self.api.objects["pods", "d", "a"]["metadata"]["labels"]["by"])
            self.api.changes.note()
        return answer

    async def until_written_by(self, name: str) -> None:
        await self.api.until(lambda: self.writers[-1:] == [name])


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def kubeconfig(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Path]:
    async with answering(cluster.handle, tmp_path) as path:
        yield path


@asynccontextmanager
async def leader(name: str, kubeconfig: Path, *how: str) -> AsyncIterator[Process]:
    """A process that runs for leader; killed at the end."""
    command = (sys.executable, "-m", "tests.integration.leader", str(kubeconfig), *how)
    process = await asyncio.create_subprocess_exec(*command, stderr=PIPE, env={**os.environ, "POD_NAME": name})
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


LOST = f"the lease was not renewed for {LEASE_S * 3 / 4:g} s"
WATCHDOG = rf"Timeout \(0:00:0[0-{LEASE_S - 1}]\."
"""It says after which time it ends a process. On a busy machine it comes before the end in order."""


@pytest.mark.parametrize(("how", "said"), [((), f"{LOST}|{WATCHDOG}"), (("stubborn",), WATCHDOG)], ids=["", "stubborn"])
async def test_a_leader_whose_calls_hang_ends_within_its_lease(
    cluster: Cluster, kubeconfig: Path, how: tuple[str, ...], said: str
) -> None:
    async with leader("a", kubeconfig, *how) as process:
        await cluster.until_written_by("a")
        cluster.hangs = True
        _, stderr = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode in ENDED
    assert re.search(said, stderr.decode()), stderr


async def test_a_leader_that_was_frozen_writes_nothing_after_the_next_one_leads(
    cluster: Cluster, kubeconfig: Path
) -> None:
    async with leader("a", kubeconfig) as first:
        await cluster.until_written_by("a")
        async with leader("b", kubeconfig) as second:
            first.send_signal(signal.SIGSTOP)
            await cluster.until_written_by("b")
            written = len(cluster.writers)
            first.send_signal(signal.SIGCONT)
            await asyncio.wait_for(first.communicate(), 120)
            await cluster.api.until(lambda: len(cluster.writers) > written + 10)
            assert first.returncode in ENDED
            assert second.returncode is None
            assert set(cluster.writers[written:]) == {"b"}
