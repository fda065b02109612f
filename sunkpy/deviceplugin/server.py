"""Serves the kubelet's device plugin API (v1beta1) on a socket in the kubelet's folder.

The device ids that the kubelet books are only slots, one for each GPU; `allocate` decides which GPU a container gets. A
kubelet that starts removes all sockets of the folder; then the plugin registers again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import structlog

from sunkpy.core.gang.devices.handout import DeviceFile, HandoutRefused
from sunkpy.deviceplugin import kubelet_pb2 as api
from sunkpy.deviceplugin.allocate import PluginAllocator
from sunkpy.deviceplugin.gpus import find_gpus
from sunkpy.deviceplugin.metrics import PluginMetrics
from sunkpy.deviceplugin.settings import PluginSettings

_LOOK_S = 1.0
_SOCKET = "sunkpy.sock"

_Context = grpc.aio.ServicerContext[api.Empty, api.ListAndWatchResponse]


class PluginServer:
    """The device plugin of one node: a server that the kubelet calls."""

    def __init__(self, allocator: PluginAllocator, settings: PluginSettings, metrics: PluginMetrics) -> None:
        self._allocator = allocator
        self._settings = settings
        self._metrics = metrics
        self._folder = Path(settings.folder)
        self._is_registered = False
        self._log = structlog.get_logger("device-plugin")

    def explain_unready(self) -> str | None:
        """Return why the plugin is not ready; None while it is registered with the kubelet."""
        return None if self._is_registered else f"no kubelet answers in {self._folder}"

    async def run(self) -> None:
        """Serve the kubelet until cancelled, and register again with each kubelet that starts."""
        while True:
            (self._folder / _SOCKET).unlink(missing_ok=True)
            server = grpc.aio.server()
            server.add_generic_rpc_handlers([self._handlers()])
            server.add_insecure_port(f"unix:{self._folder / _SOCKET}")
            await server.start()
            try:
                self._is_registered = await self._register()
                if self._is_registered:
                    await self._until_cut_off()
            finally:
                self._is_registered = False
                await server.stop(grace=0)
            await asyncio.sleep(_LOOK_S)

    async def _until_cut_off(self) -> None:
        """Wait until the plugin's socket is gone: a kubelet that restarts removes it."""
        while (self._folder / _SOCKET).exists():  # noqa: ASYNC110 - there is no event for a removed file
            await asyncio.sleep(_LOOK_S)

    async def _register(self) -> bool:
        """Register with the kubelet; return whether it accepted."""
        async with grpc.aio.insecure_channel(f"unix:{self._folder / 'kubelet.sock'}") as channel:
            register = channel.unary_unary(
                "/v1beta1.Registration/Register",
                request_serializer=api.RegisterRequest.SerializeToString,
                response_deserializer=api.Empty.FromString,
            )
            request = api.RegisterRequest(version="v1beta1", endpoint=_SOCKET, resource_name=self._settings.resource)
            try:
                await register(request, timeout=10)
            except grpc.aio.AioRpcError as error:
                self._log.warning(
                    "the kubelet has not registered the plugin", folder=str(self._folder), error=error.details()
                )
                return False
        self._log.info("registered", resource=self._settings.resource)
        return True

    def _handlers(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            "v1beta1.DevicePlugin",
            {
                "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
                    self._options, api.Empty.FromString, api.DevicePluginOptions.SerializeToString
                ),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self._list, api.Empty.FromString, api.ListAndWatchResponse.SerializeToString
                ),
                "Allocate": grpc.unary_unary_rpc_method_handler(
                    self._allocate, api.AllocateRequest.FromString, api.AllocateResponse.SerializeToString
                ),
            },
        )

    async def _options(self, _: api.Empty, __: _Context) -> api.DevicePluginOptions:
        return api.DevicePluginOptions()

    async def _list(self, _: api.Empty, __: _Context) -> AsyncIterator[api.ListAndWatchResponse]:
        """Yield the list of device slots for the kubelet, one for each GPU, at first and when the number of GPUs
        changes. If GPUs are gone, as many slots are unhealthy.
        """
        most, told = 0, -1
        while True:
            found = len(find_gpus(self._settings))
            most = max(most, found)
            if found != told:
                told = found
                self._metrics.gpus.set(found)
                health = ["Healthy" if at < found else "Unhealthy" for at in range(most)]
                yield api.ListAndWatchResponse(
                    devices=[api.Device(ID=f"slot-{at}", health=each) for at, each in enumerate(health)]
                )
            await asyncio.sleep(_LOOK_S)

    async def _allocate(self, request: api.AllocateRequest, context: _Context) -> api.AllocateResponse:
        answer = api.AllocateResponse()
        for asked in request.container_requests:
            try:
                gpus = await self._allocator.allocate(len(asked.devices_ids))
            except HandoutRefused as refused:
                self._metrics.allocations.labels("refused").inc()
                self._log.warning("GPUs refused to a container", why=str(refused))
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{self._settings.resource}: {refused}")
            self._metrics.allocations.labels("allocated").inc()
            answer.container_responses.append(self._given(gpus))
        return answer

    def _given(self, gpus: tuple[DeviceFile, ...]) -> api.ContainerAllocateResponse:
        """Return the answer to the kubelet for one container: device files for any runtime, and GPU names for NVIDIA's
        runtime and, with `cdi_kind`, for CDI.
        """
        dev, names = Path(self._settings.dev), [gpu.uuid or Path(gpu.file).name for gpu in gpus]
        wanted = [*(gpu.file for gpu in gpus), *(str(dev / name) for name in self._settings.control_files)]
        return api.ContainerAllocateResponse(
            envs={"NVIDIA_VISIBLE_DEVICES": ",".join(names)},
            devices=[
                api.DeviceSpec(container_path=path, host_path=path, permissions="rw")
                for path in wanted
                if Path(self._settings.host + path).exists()  # pretend GPUs have no files
            ],
            cdi_devices=[api.CDIDevice(name=f"{self._settings.cdi_kind}={name}") for name in names]
            if self._settings.cdi_kind
            else [],
        )
