"""Answers the kubelet's requests for GPUs, one at a time. Annotations of the node's pods, read from the apiserver, say
which GPUs Slurm gave to each pod.
"""

from __future__ import annotations

import asyncio

import structlog

from sunkpy.core.gang.devices.handout import DeviceFile, HandoutRefused, hand_out, holds_up
from sunkpy.core.model.objects import Pod
from sunkpy.deviceplugin.gpus import find_gpus
from sunkpy.deviceplugin.settings import PluginSettings
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError


class PluginAllocator:
    """Hands out the GPUs of one node. It remembers which pods got GPUs until the apiserver no longer lists
    these pods.
    """

    def __init__(self, kube: Kube, settings: PluginSettings, *, node: str) -> None:
        self._kube = kube
        self._settings = settings
        self._node = node
        self._served: set[str] = set()
        self._one_at_a_time = asyncio.Lock()
        self._log = structlog.get_logger("device-plugin")

    async def start(self) -> None:
        """Note the pods that wait now until their kubelet admits them. They get no GPUs from this process, because an
        earlier plugin process may have given them some.

        Raises:
            KubeError: the apiserver could not be asked.
        """
        self._served = {pod.uid for pod in await self._pods() if holds_up(pod, self._settings.resource)}

    async def allocate(self, count: int) -> tuple[DeviceFile, ...]:
        """Return the GPUs for the container that the kubelet starts now. `count`: how many it requests.

        Raises:
            HandoutRefused: it is not certain which pod asks, or which GPUs Slurm gave to its job, or pods cannot be
                listed. The pod then fails.
        """
        async with self._one_at_a_time:
            try:
                pods = await self._pods()
            except KubeError as error:
                raise HandoutRefused(f"the pods of node {self._node} cannot be listed: {error}") from error
            self._served &= {pod.uid for pod in pods}
            pod, found = hand_out(
                pods,
                find_gpus(self._settings),
                count=count,
                resource=self._settings.resource,
                schedulers=self._settings.schedulers,
                served=self._served,
            )
            self._served.add(pod.uid)
        self._log.info("allocated", pod="/".join(pod.key), gpus=[gpu.uuid or gpu.file for gpu in found])
        return found

    async def _pods(self) -> list[Pod]:
        return await self._kube.list_objects(paths.ALL_PODS, Pod, field_selector=paths.on_node(self._node))
