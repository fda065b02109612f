"""What a process tells of its own leadership, and how long its memory may hold it."""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import sys
import weakref

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sunkpy.runtime.process import Process, collecting_often, settle_garbage_collector
from sunkpy.runtime.settings import HttpSettings, LeaderElectionSettings, ProcessSettings
from tests.polling import until
from tests.ports import free_ports
from tests.unit.runtime.certificates import NAME, TOKEN, trust_in, write_certificate
from tests.unit.runtime.replicas import DistantLock, Store, Ways


def lock() -> DistantLock:
    return DistantLock(Store(), itertools.repeat(Ways()))


async def test_writes_may_be_sent_only_while_the_process_leads() -> None:
    process = Process("syncer", ProcessSettings())
    assert process.remaining_s() == 0
    while_leading: list[float] = []

    async def work() -> None:
        while_leading.append(process.remaining_s())

    await process.lead(lock(), work)
    assert 8 < while_leading[0] <= 9
    assert process.remaining_s() == 0


async def test_without_an_election_there_is_no_deadline() -> None:
    process = Process("syncer", ProcessSettings(leader_election=LeaderElectionSettings(enabled=False)))
    assert process.remaining_s() == math.inf
    await process.lead(lock(), lambda: asyncio.sleep(0))


def test_in_a_pod_a_process_bears_the_name_of_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "syncer-0")
    monkeypatch.setenv("POD_IP", "10.0.0.1")
    assert str(Process("syncer", ProcessSettings()).identity) == "syncer-0/10.0.0.1"


def test_elsewhere_no_two_processes_bear_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name takes its own lease at once: two processes of a machine must not."""
    monkeypatch.delenv("POD_NAME", raising=False)
    names = {Process("syncer", ProcessSettings()).identity.name for _ in range(2)}
    assert len(names) == 2


def test_a_walk_of_objects_that_stayed_a_while_is_a_short_one() -> None:
    before = gc.get_threshold()
    try:
        settle_garbage_collector()
        young, middle, _ = gc.get_threshold()
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
    assert young * (middle + 1) <= 120_000, "130 ns for each, up to four times that on a busy machine"


class Circle:
    """Refers to itself: only the collector can end it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize("generation", ["young", "middle"])
async def test_what_was_made_lately_is_collected_also_where_as_much_ends_as_is_made(generation: str) -> None:
    gc.disable()  # Python itself then sees no reason to
    try:
        circle = Circle()
        if generation == "middle":
            gc.collect(0)
        seen = weakref.ref(circle)
        del circle

        async def is_gone() -> bool:
            return seen() is None

        assert not await is_gone()
        async with collecting_often(every_s=0.01):
            await until(is_gone, timeout_s=10, what="collection", every_s=0.01)
    finally:
        gc.enable()


async def test_figures_come_behind_the_metrics_of_the_process() -> None:
    process = Process("syncer", ProcessSettings(http=HttpSettings(port=0)))
    process.serve_figures(lambda: b"slurm_jobs 7\n")
    runner = await process.serve()
    try:
        port = next(address[1] for address in runner.addresses if len(address) == 2)
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            text, encoding = await answer.text(), answer.headers["Content-Encoding"]
    finally:
        await runner.cleanup()
    assert encoding == "gzip"
    found = {family.name: family for family in text_string_to_metric_families(text)}
    assert found["slurm_jobs"].samples[0].value == 7
    assert "sunkpy_leader" in found


@pytest.mark.parametrize(("enabled", "said"), [(True, (503, "apiserver: silent")), (False, (200, "ok"))])
async def test_only_who_holds_a_lease_is_not_alive_when_nothing_answers_it(
    enabled: bool, said: tuple[int, str]
) -> None:
    election = LeaderElectionSettings(enabled=enabled)
    process = Process("syncer", ProcessSettings(http=HttpSettings(port=0), leader_election=election))
    process.add_alive_check("apiserver", lambda: "silent")
    runner = await process.serve()
    port = next(address[1] for address in runner.addresses if len(address) == 2)
    found: list[tuple[int, str]] = []

    async def ask() -> None:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/healthz") as answer:
            found.append((answer.status, await answer.text()))

    try:
        await ask()
        await process.lead(lock(), ask)
    finally:
        await runner.cleanup()
    assert found == [(200, "ok"), said], "before, and while it leads"


PROGRAM = """
import asyncio, sys
from sunkpy.runtime import process, settings
http = settings.HttpSettings(port=int(sys.argv[1]), secret_folder=sys.argv[2])
process.run("syncer", settings.ProcessSettings(http=http), lambda _: asyncio.Event().wait())
"""


async def test_a_process_with_a_secret_gives_metrics_for_its_token_and_probes_for_none(tmp_path) -> None:
    write_certificate(tmp_path)
    (port,) = free_ports(1)
    running = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, str(port), str(tmp_path), stderr=-1)
    assert running.stderr is not None
    assert b"started" in await running.stderr.readline()
    try:
        connector = aiohttp.TCPConnector(ssl=trust_in(tmp_path))
        async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session:

            async def ask(path: str, **headers: str) -> tuple[int, str]:
                async with session.get(path, headers=headers, server_hostname=NAME) as answer:
                    return answer.status, await answer.text()

            assert [await ask("/healthz"), await ask("/readyz")] == [(200, "ok"), (200, "ok")]
            refused = [await ask("/metrics"), await ask("/metrics", Authorization="Bearer forged")]
            status, text = await ask("/metrics", Authorization=f"Bearer {TOKEN}")
    finally:
        running.terminate()
    assert ([code for code, _ in refused], status, await running.wait()) == ([401, 401], 200, 0)
    assert "sunkpy_metrics_refused_total 2.0" in text
    assert "sunkpy_leader" not in "".join(body for _, body in refused)
