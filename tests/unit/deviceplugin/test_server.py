"""The device plugin, asked by a kubelet that is played here: over its sockets, with the kubelet's own messages."""

from __future__ import annotations

import asyncio
import contextlib

import grpc
import pytest
from prometheus_client import CollectorRegistry

from sunkpy.core import names
from sunkpy.deviceplugin import kubelet_pb2 as api
from sunkpy.deviceplugin.allocate import PluginAllocator
from sunkpy.deviceplugin.metrics import PluginMetrics
from sunkpy.deviceplugin.server import PluginServer
from sunkpy.deviceplugin.settings import PluginSettings
from sunkpy.kube.client import Kube
from tests.doubles.apiserver import Apiserver
from tests.doubles.nvidia import information
from tests.doubles.serving import answering

GPU = "nvidia.com/gpu"


class Kubelet:
    """Takes registrations in a folder, and asks as the kubelet does."""

    def __init__(self, folder):
        self.folder = folder
        self.registered = asyncio.Queue()

    @contextlib.asynccontextmanager
    async def running(self):
        """A kubelet that starts removes all sockets."""
        for path in self.folder.glob("*.sock"):
            path.unlink()
        server = grpc.aio.server()
        register = grpc.unary_unary_rpc_method_handler(
            self._register, api.RegisterRequest.FromString, api.Empty.SerializeToString
        )
        handler = grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": register})
        server.add_generic_rpc_handlers([handler])
        server.add_insecure_port(f"unix:{self.folder}/kubelet.sock")
        await server.start()
        try:
            yield self
        finally:
            await server.stop(grace=0)

    async def _register(self, request, _):
        self.registered.put_nowait(request)
        return api.Empty()

    @contextlib.asynccontextmanager
    async def plugin(self):
        """A connection to the plugin that has registered."""
        request = await asyncio.wait_for(self.registered.get(), timeout=20)
        assert (request.version, request.resource_name) == ("v1beta1", GPU)
        async with grpc.aio.insecure_channel(f"unix:{self.folder}/{request.endpoint}") as channel:
            yield Plugin(channel)


class Plugin:
    def __init__(self, channel):
        self._channel = channel

    async def allocate(self, count):
        call = self._channel.unary_unary(
            "/v1beta1.DevicePlugin/Allocate",
            request_serializer=api.AllocateRequest.SerializeToString,
            response_deserializer=api.AllocateResponse.FromString,
        )
        slots = [f"slot-{at}" for at in range(count)]
        asked = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=slots)])
        (answer,) = (await call(asked)).container_responses
        return answer

    def slots(self):
        call = self._channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=api.Empty.SerializeToString,
            response_deserializer=api.ListAndWatchResponse.FromString,
        )
        return call(api.Empty())


@pytest.fixture
def machine(tmp_path):
    """Two GPUs, the second with minor 3."""
    for name in ("dev/nvidia0", "dev/nvidia3", "dev/nvidiactl", "dev/nvidia-caps", "sockets/x"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    for minor in (0, 3):
        described = tmp_path / "driver" / f"0000:{minor}b:00.0" / "information"
        described.parent.mkdir(parents=True)
        described.write_text(information(minor=minor, uuid=f"GPU-{minor}", pci=described.parent.name))
    return tmp_path


def settings(machine, **more):
    return PluginSettings(
        schedulers=("slurm",), folder=str(machine / "sockets"), dev=str(machine / "dev"),
        driver=str(machine / "driver"), host="", **more,
    )  # fmt: skip


def put_pod(apiserver, name="web", noted="node-1/GPU-3", count=1, node="node-1"):
    container = {"name": "c", "resources": {"requests": {GPU: str(count)}}}
    notes = {names.ANNOTATION_JOB_ID: "7", names.ANNOTATION_DEVICES: noted}
    apiserver.put(
        "pods",
        {
            "metadata": {"name": name, "namespace": "default", "annotations": notes},
            "spec": {"nodeName": node, "schedulerName": "slurm", "containers": [container]},
            "status": {"phase": "Pending"},
        },
    )


@contextlib.asynccontextmanager
async def serving(apiserver, machine, **more):
    config = settings(machine, **more)
    async with answering(apiserver.handle, machine) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        allocator = PluginAllocator(kube, config, node="node-1")
        await allocator.start()
        server = PluginServer(allocator, config, PluginMetrics(CollectorRegistry()))
        task = asyncio.create_task(server.run())
        try:
            yield server
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_container_gets_the_gpu_that_is_noted_on_its_pod(machine):
    apiserver, kubelet = Apiserver(), Kubelet(machine / "sockets")
    async with (
        kubelet.running(),
        serving(apiserver, machine, cdi_kind="nvidia.com/gpu") as server,
        kubelet.plugin() as plugin,
    ):
        put_pod(apiserver, "elsewhere", "node-2/GPU-0", node="node-2")
        put_pod(apiserver)
        answer = await plugin.allocate(1)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await plugin.allocate(1)
        assert server.explain_unready() is None
    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": "GPU-3"}
    files = [str(machine / "dev" / name) for name in ("nvidia3", "nvidiactl")]
    assert [(each.host_path, each.container_path, each.permissions) for each in answer.devices] == [
        (path, path, "rw") for path in files
    ]
    assert [each.name for each in answer.cdi_devices] == ["nvidia.com/gpu=GPU-3"]
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert refused.value.details() == f"{GPU}: no pod that waits here has one container that asks for 1 {GPU}"


async def test_a_gpu_that_falls_off_the_bus_is_a_slot_that_nobody_gets(machine):
    apiserver, kubelet = Apiserver(), Kubelet(machine / "sockets")
    async with kubelet.running(), serving(apiserver, machine), kubelet.plugin() as plugin:
        told = plugin.slots()
        first = await told.read()
        (machine / "dev/nvidia3").unlink()
        second = await told.read()
    assert [(each.ID, each.health) for each in first.devices] == [("slot-0", "Healthy"), ("slot-1", "Healthy")]
    assert [each.health for each in second.devices] == ["Healthy", "Unhealthy"]


async def test_a_gpu_that_nobody_has_used_yet_is_not_found_by_a_uuid(machine):
    """The driver shows question marks for each such card: one uuid would mean another card a moment later."""
    unknown = "GPU-????????-????-????-????-????????????"
    described = machine / "driver" / "0000:3b:00.0" / "information"
    described.write_text(described.read_text().replace("GPU-3", unknown))
    apiserver, kubelet = Apiserver(), Kubelet(machine / "sockets")
    async with kubelet.running(), serving(apiserver, machine), kubelet.plugin() as plugin:
        put_pod(apiserver, noted=f"node-1/{unknown}")
        with pytest.raises(grpc.aio.AioRpcError, match="0 of these are on this node"):
            await plugin.allocate(1)
        put_pod(apiserver, noted="node-1/nvidia3")
        answer = await plugin.allocate(1)
    assert answer.devices[0].host_path == str(machine / "dev/nvidia3")


async def test_a_kubelet_that_starts_anew_gets_to_know_the_plugin_again(machine):
    apiserver, kubelet = Apiserver(), Kubelet(machine / "sockets")
    async with serving(apiserver, machine):
        async with kubelet.running(), kubelet.plugin():
            pass
        async with kubelet.running(), kubelet.plugin() as plugin:
            put_pod(apiserver)
            assert (await plugin.allocate(1)).envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-3"


async def test_of_a_pod_that_waited_before_the_plugin_started_nobody_knows_what_it_got(machine):
    apiserver, kubelet = Apiserver(), Kubelet(machine / "sockets")
    put_pod(apiserver)
    async with kubelet.running(), serving(apiserver, machine), kubelet.plugin() as plugin:
        with pytest.raises(grpc.aio.AioRpcError, match="no pod that waits here"):
            await plugin.allocate(1)


async def test_without_an_apiserver_nothing_is_handed_out(machine):
    apiserver, kubelet = Apiserver(), Kubelet(machine / "sockets")
    async with kubelet.running(), serving(apiserver, machine), kubelet.plugin() as plugin:
        put_pod(apiserver)
        apiserver.forbidden.add("pods")
        with pytest.raises(grpc.aio.AioRpcError, match="the pods of node node-1 cannot be listed"):
            await plugin.allocate(1)
