"""One term of leadership of `sunkpy logins`: watches, loop, and the server for requests, until it is cancelled."""

from __future__ import annotations

import asyncio

from sunkpy.core.logins import StatefulSet
from sunkpy.core.model.objects import Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer
from sunkpy.kube.pulse import Pulse
from sunkpy.logins.collect import Collector, trim_pod
from sunkpy.logins.execute import Executor
from sunkpy.logins.loop import LoginsLoop
from sunkpy.logins.metrics import LoginsMetrics
from sunkpy.logins.request_server import RequestServer
from sunkpy.logins.settings import LoginsSettings
from sunkpy.runtime.process import Process
from sunkpy.runtime.serving import serve_app


class Term:
    """One term of leadership of `sunkpy logins`. The process has one at most, and ends when it loses the Lease."""

    def __init__(self, *, kube: Kube, settings: LoginsSettings, process: Process, metrics: LoginsMetrics) -> None:
        namespace, selector = settings.namespace, settings.selector
        self._settings = settings
        self._workloads = Informer(kube, paths.statefulsets(namespace), StatefulSet, label_selector=selector)
        self._pods = Informer(kube, paths.pods(namespace), Pod, label_selector=selector, keep=trim_pod)
        collector = Collector(settings=settings, workloads=self._workloads, pods=self._pods)
        self._loop = LoginsLoop(
            workloads=self._workloads,
            pods=self._pods,
            collector=collector,
            executor=Executor(kube=kube, namespace=namespace, metrics=metrics),
            queue_metrics=process.queue_metrics,
        )
        self._server = RequestServer(settings=settings, collector=collector, loop=self._loop, metrics=metrics)
        self._pulse = Pulse(kube)
        process.add_alive_check("apiserver", self._pulse.problem)
        process.add_ready_check("watches", self._problem)

    async def run(self) -> None:
        """Serve requests, and start, stop and recreate login pods, until cancelled."""
        runner = await serve_app(self._server.app(), self._settings.requests_port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pulse.follow())
                group.create_task(self._workloads.run())
                group.create_task(self._pods.run())
                group.create_task(self._loop.run())
        finally:
            await runner.cleanup()

    def _problem(self) -> str | None:
        is_known = self._workloads.synced.is_set() and self._pods.synced.is_set()
        return None if is_known else "the pods are not known yet"
