"""Pods that ask for devices as a resource which stands for a DeviceClass: the claim that is made for them, or why none.

With a gate off at the apiserver or the kubelet, Kubernetes runs such a pod without its devices and says nothing.
"""

import pytest
from aiohttp import web

from sunkpy.core import names
from sunkpy.core.model.devices import DEVICE_CLASS, MADE, PROTECTION
from tests.doubles.kubelet import Kubelet, serving_kubelet
from tests.unit.scheduler.test_claims import (
    CLAIMS,
    DRIVER,
    add_claim,
    allocated,
    counted,
    devices_of,
    leading,
    start,
    status_of,
    world,
)

__all__ = ["world"]

RESOURCE = "nvidia.com/gpu"
GATE = "DRAExtendedResource"
ACCOUNT = {"kubelet_account": "demo-kubelets"}


@pytest.fixture
async def kubelet(world, tmp_path):
    """The kubelet of node-1. The class has a resource that stands for it."""
    world.put("deviceclasses", {"metadata": {"name": DRIVER}, "spec": {"extendedResourceName": RESOURCE}})
    kubelet = Kubelet(**{GATE: True})
    async with serving_kubelet(kubelet, tmp_path) as port:
        at = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}
        world.api.change(
            "nodes", "", "node-1", {"status": at | {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}}
        )
        yield kubelet


def asking(count=1, resource=RESOURCE):
    return {"name": "c", "resources": {"requests": {"cpu": "500m", resource: str(count)}}}


def made_for(pod):
    return f"{pod['metadata']['name']}-extended-resources-{pod['metadata']['uid'][:8]}"


def claims(world):
    return sorted(world.api.names("resourceclaims"))


@pytest.mark.parametrize("resource", [RESOURCE, DEVICE_CLASS + DRIVER])
async def test_a_claim_is_made_and_the_pod_is_told_before_it_is_bound(world, tmp_path, kubelet, resource):
    pod = world.add_pod(containers=[asking(2, resource)])
    async with leading(world, tmp_path, **ACCOUNT):
        await world.until(lambda: world.submissions)
        assert world.submissions[0]["tres_per_node"] == "gres/gpu:2"
        assert claims(world) == []
        await start(world, "1,3")
        await world.until(lambda: world.bindings == [("web", "node-1")])
    name = made_for(pod)
    made = world.api.objects["resourceclaims", "default", name]
    assert made["metadata"]["finalizers"] == [PROTECTION]
    assert made["metadata"]["annotations"] == {MADE: "true", names.ANNOTATION_ALLOCATED_BY: "slurm"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": pod["metadata"]["uid"], "controller": True}
    assert made["metadata"]["ownerReferences"] == [owner]
    (request,) = made["spec"]["devices"]["requests"]
    assert request == {"name": "container-0-request-0", "exactly": {"deviceClassName": DRIVER, "count": 2}}
    assert devices_of(world, name) == ["gpu-2", "gpu-0"]
    assert status_of(world, name)["reservedFor"] == [{"resource": "pods", "name": "web", "uid": pod["metadata"]["uid"]}]
    assert world.pod()["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": name,
        "requestMappings": [{"containerName": "c", "resourceName": resource, "requestName": "container-0-request-0"}],
    }
    assert world.api.patched[:2] == [f"{name}/status", "web/status"]
    assert world.pod()["metadata"]["annotations"][names.ANNOTATION_DEVICES] == "node-1/gpu-2,node-1/gpu-0"
    assert set(kubelet.tokens) == {"of demo-kubelets"}


async def test_each_container_has_a_request_of_its_own(world, tmp_path, kubelet):
    containers = [asking(1), asking(2) | {"name": "d"}]
    pod = world.add_pod(containers=containers, initContainers=[{"name": "i"}])
    async with leading(world, tmp_path, **ACCOUNT):
        await start(world, "0,1,2")
        await world.until(lambda: world.bindings)
    results = status_of(world, made_for(pod))["allocation"]["devices"]["results"]
    assert [(each["request"], each["device"]) for each in results] == [
        ("container-1-request-0", "gpu-3"), ("container-2-request-0", "gpu-2"), ("container-2-request-0", "gpu-1"),
    ]  # fmt: skip


async def test_where_a_kubelet_has_the_gate_off_nothing_is_made_or_bound(world, tmp_path, kubelet):
    kubelet.gates[GATE] = False
    world.add_pod(containers=[asking()])
    async with leading(world, tmp_path, **ACCOUNT):
        job = await start(world, "0")
        await world.until(lambda: world.cancelled == [job])
        why = f"the kubelet of node node-1 has gate {GATE} off and would run the pod without its devices"
        await world.until(lambda: any(why in note for note in world.notes("FailedScheduling")))
        assert counted(world, "device_refusals", reason="gate") == 1
    assert (world.bindings, claims(world)) == ([], [])


async def test_a_kubelet_that_does_not_say_is_asked_again(world, tmp_path, kubelet):
    gates, kubelet.gates = kubelet.gates, None
    world.add_pod(containers=[asking()])
    async with leading(world, tmp_path, **ACCOUNT):
        await start(world, "0")
        await world.until(lambda: counted(world, "device_refusals", reason="gate"))
        assert (world.bindings, claims(world)) == ([], [])
        kubelet.gates = gates
        await world.until(lambda: world.bindings)


async def test_where_the_apiserver_has_the_gate_off_the_job_is_given_back(world, tmp_path, kubelet):
    """It answers 200, and drops the field."""
    world.api.drops.add("extendedResourceClaimStatus")
    pod = world.add_pod(containers=[asking()])
    async with leading(world, tmp_path, **ACCOUNT):
        job = await start(world, "0")
        await world.until(lambda: world.cancelled == [job])
        await world.until(lambda: devices_of(world, made_for(pod)) == [])
        why = f"the apiserver drops a pod's extendedResourceClaimStatus (gate {GATE} is off)"
        await world.until(lambda: any(why in note for note in world.notes("FailedScheduling")))
    assert world.bindings == []


async def test_until_all_claims_have_been_read_nobody_knows_who_has_a_device_and_nothing_is_asked_for(
    world, tmp_path, kubelet
):
    world.hasten(other_pods_again_s=3.1)
    world.api.forbidden.add("resourceclaims")
    world.add_pod(containers=[asking()])
    async with leading(world, tmp_path, **ACCOUNT):
        says = "waits for the list of all ResourceClaims"
        await world.until(lambda: any(says in note for note in world.notes("FailedScheduling")) or world.submissions)
        assert world.submissions == []
        world.api.forbidden.clear()
        await world.until(lambda: world.submissions)


async def test_a_new_leader_gives_no_devices_before_it_has_read_who_has_some(world, tmp_path, kubelet):
    """Slurm has started the job while nobody led."""
    world.add_pod(containers=[asking()])
    async with leading(world, tmp_path, **ACCOUNT):
        await world.until(lambda: world.submissions)
    add_claim(world, "others", **allocated("gpu-3", pod="other", uid="o"))
    handle, is_away = world.api.handle, [True]

    async def without_claims(request):
        is_list = request.method == "GET" and request.path == CLAIMS
        return web.Response(status=503) if is_list and is_away else await handle(request)

    world.api.handle = without_claims
    async with leading(world, tmp_path, **ACCOUNT):
        await start(world, "0")
        await world.until(lambda: counted(world, "device_refusals", reason="claim") or world.bindings)
        assert world.bindings == []
        world.remove("resourceclaims", "default", "others")
        is_away.clear()
        await world.until(lambda: world.bindings)


async def test_a_gang_has_all_its_made_claims_or_none(world, tmp_path, kubelet):
    marks = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": "2"}
    one, two = (world.add_pod(name, containers=[asking()], annotations=marks) for name in ("one", "two"))
    world.api.refuse_patch[f"{made_for(two)}/status"] = 422
    async with leading(world, tmp_path, **ACCOUNT):
        job = await start(world, "2-3", tasks=2)
        await world.until(lambda: world.cancelled == [job])
        await world.until(lambda: devices_of(world, made_for(one)) == [])
    assert world.bindings == []


async def test_a_new_leader_frees_what_an_interrupted_one_has_made_and_uses_it_again(world, tmp_path, kubelet):
    pod = world.add_pod(containers=[asking()])
    name, uid = made_for(pod), pod["metadata"]["uid"]
    requests = [{"name": "container-0-request-0", "exactly": {"deviceClassName": DRIVER, "count": 1}}]
    results = [{"request": "container-0-request-0", "driver": DRIVER, "pool": "node-1", "device": "gpu-0"}]
    meta = {"name": name, "namespace": "default", "finalizers": [PROTECTION]}
    marks = {MADE: "true", names.ANNOTATION_ALLOCATED_BY: "slurm"}
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": "web", "uid": uid}],
    }
    claim = {"metadata": meta | {"annotations": marks}, "spec": {"devices": {"requests": requests}}, "status": status}
    world.put("resourceclaims", claim)
    async with leading(world, tmp_path, **ACCOUNT):
        await world.until(lambda: devices_of(world, name) == [])
        await start(world, "0")
        await world.until(lambda: world.bindings)
    assert (claims(world), devices_of(world, name)) == ([name], ["gpu-3"])


async def test_a_pod_whose_made_claim_somebody_clears_is_evicted(world, tmp_path, kubelet):
    pod = world.add_pod(containers=[asking()])
    async with leading(world, tmp_path, **ACCOUNT):
        await start(world, "0")
        await world.until(lambda: world.bindings)
        world.pod_runs()
        cleared = {"status": {"allocation": None, "reservedFor": None}}
        world.api.change("resourceclaims", "default", made_for(pod), cleared)
        await world.until(lambda: world.deleted == ["web"])


async def test_a_new_leader_leaves_a_pod_with_a_made_claim_alone(world, tmp_path, kubelet):
    world.add_pod(containers=[asking()])
    async with leading(world, tmp_path, **ACCOUNT):
        await start(world, "0")
        await world.until(lambda: world.bindings)
        world.pod_runs()
    before = len(world.api.patched)
    async with leading(world, tmp_path, **ACCOUNT):
        world.add_pod("after")
        await world.until(lambda: len(world.submissions) == 2)
    assert (world.deleted, world.cancelled) == ([], [])
    assert not [what for what in world.api.patched[before:] if "extended" in what]


async def test_a_resource_that_some_kubelet_offers_is_left_to_its_plugin(world, tmp_path, kubelet):
    world.add_node(2, **{RESOURCE: "4"})
    world.slurm.put("n2", gres="gpu:4", cpus=4)
    async with leading(world, tmp_path, gpu_resources={RESOURCE: "gpu"}, **ACCOUNT):
        world.add_pod(containers=[asking()])
        await world.until(lambda: world.submissions)
        assert world.submissions[0]["tres_per_node"] == "gres/gpu:1"
        await start(world, "0", node="n2")
        await world.until(lambda: world.bindings == [("web", "node-2")])
    assert claims(world) == []


async def test_a_class_that_comes_to_stand_for_a_resource_helps_waiting_pods(world, tmp_path):
    async with leading(world, tmp_path):
        world.add_pod(containers=[asking(resource="example.com/gpu")])
        await world.until(lambda: world.notes("FailedScheduling"))
        world.put("deviceclasses", {"metadata": {"name": DRIVER}, "spec": {"extendedResourceName": "example.com/gpu"}})
        await world.until(lambda: world.submissions)
