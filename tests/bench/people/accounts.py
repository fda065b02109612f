"""How long the accounts process takes to make the accounts of many users, with a real slurmdbd and a real MariaDB."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Final

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from demo.person import Key
from sunkpy.accounts.loop import AccountsLoop
from sunkpy.accounts.metrics import AccountsMetrics
from sunkpy.accounts.settings import AccountsSettings
from sunkpy.core.accounts import WantedAccounts
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import Slurm, errors
from tests.bench import report
from tests.bench.asked import SUITE
from tests.bench.people.crowd import Crowd
from tests.integration.slurm.daemons import RealAccounting, RealSlurm
from tests.polling import until

_CLUSTER: Final = "it"
_ALL_S: Final = 60.0
_ONE_S: Final = 2.0
_ONE_TAKES: Final = 20


class Counting:
    """A recorder that counts answered requests."""

    def __init__(self) -> None:
        self.requests = 0

    def answered(self, endpoint: str, *, code: str, seconds: float) -> None:
        self.requests += 1

    def retried(self, endpoint: str) -> None:
        """Do nothing: a retried request is counted when it is answered."""

    def exchanged(self, endpoint: str, *, size: int) -> None:
        """Do nothing: the request is counted when it is answered."""


async def measure(folder: Path, key: Key, *, people: int) -> list[report.Figure]:
    """Time the accounts of `people` users: all at once, again without a change, with one more, and without that one."""
    accounting = RealAccounting(folder, SUITE)
    slurm = RealSlurm(folder, SUITE, accounting)
    try:
        return await _measure(slurm, key, people)
    finally:
        accounting.stop()
        slurm.stop()


async def _measure(daemons: RealSlurm, key: Key, people: int) -> list[report.Figure]:
    counting = Counting()
    settings = SlurmSettings(url=daemons.url, user="slurm", jwt_key_file=str(daemons.key_file))
    slurm = Slurm.connect(settings, recorder=counting)
    figures: list[report.Figure] = []
    try:
        await until(lambda: _is_there(slurm), timeout_s=60, what="slurmdbd knows the cluster")
        steps = (("all", people), ("nothing", people), ("one more", people + 1), ("one closed", people))
        for what, size in steps:
            wanted = msgspec.convert(Crowd(size, key, each=1).wanted(), WantedAccounts)
            before, began_s = counting.requests, time.monotonic()
            await _settle(slurm, wanted)
            took_s, requests = time.monotonic() - began_s, counting.requests - before
            name, bound = f"accounts of {people} people: {what}", _ALL_S if what == "all" else _ONE_S
            figures.append(report.at_most(name, took_s, bound=bound))
            if what == "all":
                figures.append(report.observed(f"{name}, requests", requests, unit="requests"))
            else:
                figures.append(report.at_most(f"{name}, requests", requests, unit="requests", bound=_ONE_TAKES))
    finally:
        await slurm.close()
    return figures


async def _is_there(slurm: Slurm) -> bool:
    try:
        return ("root", "") in (await slurm.accounting(_CLUSTER)).associations
    except errors.SlurmError:
        return False


async def _settle(slurm: Slurm, wanted: WantedAccounts) -> None:
    unused = SlurmSettings(url="http://nowhere", jwt_key_file="/nowhere")
    settings = AccountsSettings(cluster=_CLUSTER, slurm=unused, wanted=wanted)
    loop = AccountsLoop(slurm=slurm, settings=settings, metrics=AccountsMetrics(CollectorRegistry()))
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if not await loop.settle() or loop.problem:
        raise RuntimeError(f"accounts did not come true: {loop.problem}")
