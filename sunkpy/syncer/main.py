"""Runs the syncer's process: reads the settings, connects, makes the metrics, and works while it holds the Lease."""

from __future__ import annotations

from pathlib import Path

from sunkpy.kube.client import Kube
from sunkpy.kube.lease import KubeLease
from sunkpy.runtime.process import Process, run
from sunkpy.runtime.settings import load
from sunkpy.slurm import NodeCache, Slurm
from sunkpy.slurm.prometheus import PrometheusRecorder
from sunkpy.syncer.metrics import NodeCollector, SyncerMetrics
from sunkpy.syncer.settings import SyncerSettings
from sunkpy.syncer.term import Term


def main(config_path: Path) -> None:
    """Run the syncer until the process gets a signal to end.

    Raises:
        BadSettings: the settings file cannot be used.
    """
    settings = load(config_path, SyncerSettings)
    run("syncer", settings, lambda process: _body(process, settings))


async def _body(process: Process, settings: SyncerSettings) -> None:
    metrics = SyncerMetrics(process.registry)
    recorder = PrometheusRecorder(process.registry)
    slurm = Slurm.connect(settings.slurm, recorder=recorder, deadline=process.remaining_s)
    nodes = NodeCache(slurm, poll_s=settings.poll_seconds)
    process.registry.register(NodeCollector(nodes))
    try:
        async with await Kube.connect() as lock, await Kube.connect(deadline=process.remaining_s) as kube:
            election = settings.leader_election
            lease = KubeLease(
                lock,
                namespace=election.namespace or settings.namespace,
                name=election.lease_name or f"sunkpy-syncer-{settings.cluster}",
            )
            await process.lead(
                lease,
                lambda: Term(
                    kube=kube, slurm=slurm, nodes=nodes, settings=settings, process=process, metrics=metrics
                ).run(),
            )
    finally:
        await slurm.close()
