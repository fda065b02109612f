"""Entry of `sunkpy logins`: reads the settings, connects, makes the metrics, and works while it holds the Lease."""

from __future__ import annotations

from pathlib import Path

from sunkpy.kube.client import Kube
from sunkpy.kube.lease import KubeLease
from sunkpy.logins.metrics import LoginsMetrics
from sunkpy.logins.settings import LoginsSettings
from sunkpy.logins.term import Term
from sunkpy.runtime.process import Process, run
from sunkpy.runtime.settings import load


def main(config_path: Path) -> None:
    """Start, stop and recreate personal login pods until a signal comes.

    Raises:
        BadSettings: the settings file cannot be used.
    """
    settings = load(config_path, LoginsSettings)
    run("logins", settings, lambda process: _body(process, settings))


async def _body(process: Process, settings: LoginsSettings) -> None:
    metrics = LoginsMetrics(process.registry)
    async with await Kube.connect() as lock, await Kube.connect(deadline=process.remaining_s) as kube:
        election = settings.leader_election
        lease = KubeLease(
            lock,
            namespace=election.namespace or settings.namespace,
            name=election.lease_name or "sunkpy-logins",
        )
        term = Term(kube=kube, settings=settings, process=process, metrics=metrics)
        await process.lead(lease, term.run)
