"""Carries out what was decided about a personal login pod. Each write is guarded and may be repeated.

The guards are needed because watches lag. A StatefulSet is scaled only if it is unchanged since the decision. If it is
to be stopped because its pod is idle, it is stopped only while the apiserver still has that pod: the person may be in
the next one. A pod is recreated only if it is unchanged, because a pod that had never run may have started.
"""

from __future__ import annotations

import structlog

from sunkpy.core.logins import LoginAction, RenewPod, StartLogin, StopLogin
from sunkpy.core.model.objects import Pod
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.logins.metrics import LoginsMetrics


class Executor:
    """Scales StatefulSets and deletes pods of personal logins, and reports that by log and metric."""

    def __init__(self, *, kube: Kube, namespace: str, metrics: LoginsMetrics) -> None:
        self._kube = kube
        self._namespace = namespace
        self._metrics = metrics
        self._log = structlog.get_logger("logins")

    async def run(self, action: LoginAction) -> None:
        """Carry out the action. Do nothing if it would stop a login because of an idle pod, and that pod is gone or
        being deleted.

        Raises:
            KubeError: the action was not carried out; decide again later.
        """
        match action:
            case StartLogin(name=name, version=version):
                await self._scale(name, version, replicas=1)
                self._log.info("started: its person asked for it", name=name)
            case StopLogin(name=name, version=version, why=why, pod=pod):
                if pod is not None and not await self._is_there(pod):
                    return
                await self._scale(name, version, replicas=0)
                self._log.info("stopped", name=name, why=why)
            case RenewPod(pod=pod):
                version = pod.metadata.resource_version
                await self._kube.delete(paths.pod(self._namespace, pod.name), uid=pod.uid, resource_version=version)
                self._log.info("recreated", name=pod.name)
        self._metrics.actions.labels(type(action).__name__).inc()

    async def _scale(self, name: str, version: str, *, replicas: int) -> None:
        body = {"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}
        await self._kube.patch(paths.scale(self._namespace, name), body)

    async def _is_there(self, pod: Pod) -> bool:
        try:
            found = await self._kube.get(paths.pod(self._namespace, pod.name), Pod)
        except errors.NotFound:
            return False
        return found.uid == pod.uid and not found.is_deleting
