"""Entry of `sunkpy accounts`: reads the settings, connects, makes the metrics, and works while it holds the Lease. With
`--dry-run` it only reads slurmdbd once.
"""

from __future__ import annotations

from pathlib import Path

from sunkpy.accounts.collect import plan_now
from sunkpy.accounts.loop import AccountsLoop
from sunkpy.accounts.metrics import AccountsMetrics
from sunkpy.accounts.settings import AccountsSettings
from sunkpy.accounts.term import serve_term
from sunkpy.core.accounts import WantedAccounts, describe_plan
from sunkpy.kube.client import Kube
from sunkpy.kube.lease import KubeLease
from sunkpy.runtime.process import Process, run
from sunkpy.runtime.settings import load
from sunkpy.slurm import Slurm
from sunkpy.slurm.cluster import check_cluster
from sunkpy.slurm.prometheus import PrometheusRecorder


def main(config_path: Path) -> None:
    """Keep the accounts in slurmdbd as the values say, until a signal comes.

    Raises:
        BadSettings: the settings file cannot be used.
    """
    settings = load(config_path, AccountsSettings)
    run("accounts", settings, lambda process: _body(process, settings))


async def look(config_path: Path, wanted_path: Path | None) -> str:
    """Return in words what would be changed in slurmdbd now. `wanted_path`: use the accounts in this file instead of
    those in the settings.

    Raises:
        BadSettings: a file cannot be used.
        SlurmError: slurmdbd could not be read.
    """
    settings = load(config_path, AccountsSettings)
    wanted = settings.wanted if wanted_path is None else load(wanted_path, WantedAccounts)
    slurm = Slurm.connect(settings.slurm)
    try:
        await check_cluster(slurm, settings.cluster)
        plan = await plan_now(slurm, wanted, cluster=settings.cluster, is_guest=settings.is_guest)
        return describe_plan(plan)
    finally:
        await slurm.close()


async def _body(process: Process, settings: AccountsSettings) -> None:
    metrics = AccountsMetrics(process.registry)
    recorder = PrometheusRecorder(process.registry)
    slurm = Slurm.connect(settings.slurm, recorder=recorder, deadline=process.remaining_s)
    loop = AccountsLoop(slurm=slurm, settings=settings, metrics=metrics)
    process.add_ready_check("accounts", lambda: loop.problem)
    try:
        async with await Kube.connect() as lock:
            election = settings.leader_election
            lease = KubeLease(
                lock,
                namespace=election.namespace or settings.namespace,
                name=election.lease_name or f"sunkpy-accounts-{settings.cluster}",
            )
            await process.lead(lease, lambda: serve_term(slurm, loop, settings))
    finally:
        await slurm.close()
