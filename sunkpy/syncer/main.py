"""Entry of `sunkpy syncer`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sunkpy.core.model.objects import Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.kube.lease import KubeLease
from sunkpy.runtime import settings as runtime_settings
from sunkpy.runtime.process import Process, run
from sunkpy.slurm import NodeCache, PrometheusRecorder, Slurm
from sunkpy.slurm.errors import SlurmError
from sunkpy.syncer.execute import Executor
from sunkpy.syncer.loop import MirrorLoop, pod_selector
from sunkpy.syncer.metrics import NodeCollector, SyncerMetrics
from sunkpy.syncer.settings import SyncerSettings


class WrongCluster(runtime_settings.BadSettings):
    """slurmrestd answers for another Slurm cluster than the one in the settings."""


def main(config_path: Path) -> None:
    """Run the syncer until a signal.

    Raises:
        BadSettings: the settings file cannot be used.
    """
    settings = runtime_settings.load(config_path, SyncerSettings)

    async def body(process: Process) -> None:
        await serve(process, settings)

    run("syncer", settings, body)


async def serve(process: Process, settings: SyncerSettings) -> None:
    """Stand for election, then mirror."""
    election = settings.leader_election
    metrics = SyncerMetrics(process.registry)
    slurm = Slurm.connect(settings.slurm, recorder=PrometheusRecorder(process.registry))
    nodes = NodeCache(slurm, poll_s=settings.poll_seconds)
    process.registry.register(NodeCollector(nodes))
    async with await Kube.connect() as kube:
        lock = KubeLease(
            kube,
            namespace=election.namespace or settings.namespace,
            name=election.lease_name or f"sunkpy-syncer-{settings.cluster}",
        )
        try:
            await process.lead(
                lock, lambda: mirror(process, settings, kube=kube, slurm=slurm, nodes=nodes, metrics=metrics)
            )
        finally:
            await slurm.close()


async def mirror(
    process: Process, settings: SyncerSettings, *, kube: Kube, slurm: Slurm, nodes: NodeCache, metrics: SyncerMetrics
) -> None:
    """The leader's work.

    Raises:
        WrongCluster: acting on that Slurm would be wrong.
    """
    pods = Informer(kube, paths.pods(settings.namespace), Pod, label_selector=pod_selector(settings.cluster))
    events = EventRecorder(kube, component="syncer", instance=process.identity.name)
    executor = Executor(kube=kube, slurm=slurm, events=events, metrics=metrics, namespace=settings.namespace)
    loop = MirrorLoop(
        namespace=settings.namespace,
        pods=pods,
        nodes=nodes,
        executor=executor,
        events=events,
        metrics=metrics,
        queue_metrics=process.queue_metrics,
    )
    await check_cluster(slurm, settings.cluster)
    process.log.info("mirroring", cluster=settings.cluster, namespace=settings.namespace, slurm=settings.slurm.url)
    async with asyncio.TaskGroup() as group:
        group.create_task(pods.run())
        group.create_task(nodes.run())
        group.create_task(loop.run())


async def check_cluster(slurm: Slurm, cluster: str) -> None:
    """Refuse to mirror into a cluster of another name. One that cannot be reached is not another one."""
    try:
        ping = await slurm.ping()
    except SlurmError:
        return
    if ping.cluster and ping.cluster != cluster:
        raise WrongCluster(
            f"slurmrestd serves Slurm cluster {ping.cluster!r}, the settings say {cluster!r}: "
            "set `cluster` to Slurm's ClusterName, or `slurm.url` to the right slurmrestd"
        )
