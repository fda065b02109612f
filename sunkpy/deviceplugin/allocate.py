"""Answers the kubelet's question for GPUs, one at a time, by what the apiserver says of the node's pods just then."""

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
    """Hands out the devices of one node. It remembers which pods got some until the apiserver no longer lists them."""

    def __init__(self, kube: Kube, settings: PluginSettings, *, node: str) -> None:
        self._kube = kube
        self._settings = settings
        self._node = node
        self._served: set[str] = set()
        self._one_at_a_time = asyncio.Lock()
        self._log = structlog.get_logger("device-plugin")

    async def start(self) -> None:
        """Start anew: a pod that waits now may have got GPUs from the plugin before this one, so it gets no others.

        Raises:
            KubeError: the apiserver could not be asked.
        """
        self._served = {pod.uid for pod in await self._pods() if holds_up(pod, self._settings.resource)}

    async def allocate(self, count: int) -> tuple[DeviceFile, ...]:
        """GPUs for the container for which the kubelet asks.

        Raises:
            Refused: none; the pod fails.
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
