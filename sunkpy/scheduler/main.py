"""Runs one process of the scheduler: it serves the HTTP calls of Prologs and Epilogs, and takes part in the election of
the replica that leads.
"""

from __future__ import annotations

from pathlib import Path

from sunkpy.kube.client import Kube
from sunkpy.kube.lease import KubeLease
from sunkpy.runtime.process import Process, run
from sunkpy.runtime.serving import serve_app
from sunkpy.runtime.settings import load
from sunkpy.scheduler.hooks.server import HookServer, other_leader
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.scheduler.term import Term
from sunkpy.slurm import Slurm
from sunkpy.slurm.prometheus import PrometheusRecorder


def main(config_path: Path) -> None:
    """Run the scheduler with the settings in this file, until the process gets a signal to end.

    Raises:
        BadSettings: the settings file cannot be used.
    """
    settings = load(config_path, SchedulerSettings)
    run("scheduler", settings, lambda process: _body(process, settings))


async def _body(process: Process, settings: SchedulerSettings) -> None:
    metrics = SchedulerMetrics(process.registry)
    server = HookServer(port=settings.hooks.port, metrics=metrics)
    server.leader = lambda: other_leader(process.election.leader if process.election else None, own=process.identity)
    runner = await serve_app(server.app(), settings.hooks.port)
    recorder = PrometheusRecorder(process.registry)
    slurm = Slurm.connect(settings.slurm, recorder=recorder, deadline=process.remaining_s)
    try:
        async with await Kube.connect() as lock, await Kube.connect(deadline=process.remaining_s) as kube:
            lease = KubeLease(
                lock,
                namespace=settings.leader_election.namespace or settings.namespace,
                name=settings.leader_election.lease_name or f"{settings.cluster}-scheduler",
            )
            await process.lead(
                lease,
                lambda: Term(
                    kube=kube,
                    slurm=slurm,
                    settings=settings,
                    process=process,
                    metrics=metrics,
                    families=settings.families,
                ).run(server.answer_by),
            )
    finally:
        await runner.cleanup()
        await slurm.close()
