"""Entry of `sunkpy operator`: reads the settings, connects, makes the metrics, and works while it holds the Lease."""

from __future__ import annotations

from pathlib import Path

from sunkpy.kube.client import Kube
from sunkpy.kube.lease import KubeLease
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.settings import OperatorSettings
from sunkpy.operator.term import Term
from sunkpy.runtime.process import Process, run
from sunkpy.runtime.settings import load


def main(config_path: Path) -> None:
    """Run the operator until a signal comes.

    Raises:
        BadSettings: the settings file cannot be used.
    """
    settings = load(config_path, OperatorSettings)
    run("operator", settings, lambda process: _serve(process, settings))


async def _serve(process: Process, settings: OperatorSettings) -> None:
    election = settings.leader_election
    metrics = OperatorMetrics(process.registry)
    async with await Kube.connect() as lock, await Kube.connect(deadline=process.remaining_s) as kube:
        lease = KubeLease(
            lock,
            namespace=election.namespace or settings.namespace,
            name=election.lease_name or "sunkpy-operator",
        )
        await process.lead(lease, lambda: Term(kube, process, settings, metrics).run())
