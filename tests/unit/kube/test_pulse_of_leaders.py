"""Each process that leads is not alive while the apiserver answers none of its requests: its /healthz says so."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
import pytest

from sunkpy.kube import pulse
from sunkpy.kube.client import Kube
from sunkpy.logins import term as logins
from sunkpy.logins.metrics import LoginsMetrics
from sunkpy.logins.settings import LoginsSettings
from sunkpy.operator import term as operator
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.settings import OperatorSettings
from sunkpy.runtime.process import Process
from sunkpy.runtime.settings import HttpSettings, LeaderElectionSettings, SlurmSettings
from sunkpy.scheduler import term as scheduler
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.slurm import NodeCache, Slurm
from sunkpy.syncer import term as syncer
from sunkpy.syncer.metrics import SyncerMetrics
from sunkpy.syncer.settings import SyncerSettings
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering, serving
from tests.doubles.slurmrestd import Slurmrestd
from tests.polling import until
from tests.unit.runtime.replicas import DistantLock, Store, Ways

HTTP: Final = HttpSettings(port=0)
LONG: Final = LeaderElectionSettings(duration_seconds=600)
"""So no busy machine loses the lease, which would end the process."""


Work = Callable[[], Coroutine[None, None, None]]


class Sides(NamedTuple):
    """What a process is connected with."""

    kube: Kube
    slurm: Slurm
    slurm_settings: SlurmSettings


def work_of_operator(sides: Sides) -> tuple[Process, Work]:
    settings = OperatorSettings(http=HTTP, leader_election=LONG)
    process = Process("operator", settings)
    return process, operator.Term(sides.kube, process, settings, OperatorMetrics(process.registry)).run


def work_of_syncer(sides: Sides) -> tuple[Process, Work]:
    settings = SyncerSettings(
        cluster="c1", namespace="slurm", slurm=sides.slurm_settings, http=HTTP, leader_election=LONG
    )
    process = Process("syncer", settings)
    term = syncer.Term(
        kube=sides.kube,
        slurm=sides.slurm,
        nodes=NodeCache(sides.slurm),
        settings=settings,
        process=process,
        metrics=SyncerMetrics(process.registry),
    )
    return process, term.run


def work_of_scheduler(sides: Sides) -> tuple[Process, Work]:
    settings = SchedulerSettings(
        cluster="c1", namespace="slurm", slurm=sides.slurm_settings, http=HTTP, leader_election=LONG
    )
    process = Process("scheduler", settings)
    metrics = SchedulerMetrics(process.registry)
    term = scheduler.Term(kube=sides.kube, slurm=sides.slurm, settings=settings, process=process, metrics=metrics)
    return process, lambda: term.run(lambda _: None)


def work_of_logins(sides: Sides) -> tuple[Process, Work]:
    settings = LoginsSettings(
        namespace="slurm", people={}, selector="a=b", requests_port=0, http=HTTP, leader_election=LONG
    )
    process = Process("logins", settings)
    metrics = LoginsMetrics(process.registry)
    return process, logins.Term(kube=sides.kube, settings=settings, process=process, metrics=metrics).run


@pytest.fixture
async def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sides]:
    key = tmp_path / "jwt.key"
    key.write_bytes(b"k" * 32)
    async with (
        answering(Apiserver().handle, tmp_path) as kubeconfig,
        serving(Slurmrestd().app()) as port,
        await Kube.connect(kubeconfig) as kube,
    ):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        settings = SlurmSettings(url=f"http://127.0.0.1:{port}", version="v0.0.45", jwt_key_file=str(key))
        slurm = Slurm.connect(settings)
        yield Sides(kube, slurm, settings)
        await slurm.close()


@pytest.mark.parametrize("work_of", [work_of_operator, work_of_syncer, work_of_scheduler, work_of_logins])
async def test_a_leader_that_is_not_answered_is_not_alive(
    sides: Sides, monkeypatch: pytest.MonkeyPatch, work_of: Callable[[Sides], tuple[Process, Work]]
) -> None:
    monkeypatch.setattr(pulse, "SILENT_S", 0.0)  # so whoever listens for answers misses them at once
    process, work = work_of(sides)
    runner = await process.serve()
    port = next(address[1] for address in runner.addresses if len(address) == 2)
    async with aiohttp.ClientSession() as session:

        async def is_silent() -> bool:
            async with session.get(f"http://127.0.0.1:{port}/healthz") as answer:
                return (await answer.text()).startswith("apiserver: no request was answered for ")

        assert not await is_silent()
        leading = asyncio.create_task(process.lead(DistantLock(Store(), itertools.repeat(Ways())), work))
        try:
            await until(is_silent, timeout_s=60, what="the leader is not alive")
        finally:
            leading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await leading
            await runner.cleanup()
