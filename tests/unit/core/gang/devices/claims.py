"""Builders of pods with claims, of the claims, and of what a node has."""

import msgspec

from sunkpy.core.gang.devices.chosen import DevicesOnNode
from sunkpy.core.model.devices import (
    DeviceId,
    ResourceClaim,
    ResourceSlice,
    current_counters,
    current_devices,
    read_extra,
)
from sunkpy.core.model.objects import PodClaim, PodClaimStatus, PodStatus
from tests.unit.core.gang.pods import make_pod

DRIVER = "gpu.example.com"
CLASSES = {DRIVER: "gpu", "nic.example.com": "nic"}


def request(name="gpu", count=1, cls=DRIVER, **more):
    return {"name": name, "exactly": {"deviceClassName": cls, "count": count, **more}}


def claim(name="c", *requests, user="", devices=(), **devices_spec):
    """One that is allocated to a pod when `user` or `devices` are given."""
    results = [{"request": "gpu", "driver": DRIVER, "pool": "node-1", "device": device} for device in devices]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    status |= {"reservedFor": [{"resource": "pods", "name": f"pod-{user}", "uid": user}]} if user else {}
    body = {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-of-{name}"},
        "spec": {"devices": {"requests": list(requests or [request()])} | devices_spec},
        "status": status,
    }
    return msgspec.convert(body, ResourceClaim)


def pod_with(*names, uid="p", node="", made=(), template="", requests=None, name=""):
    """A pod with these claims: named ones, or of a template; its status names those that were `made`."""
    asked = tuple(
        PodClaim(name=each, resource_claim_template_name=template)
        if template
        else PodClaim(name=each, resource_claim_name=each)
        for each in names
    )
    pod = make_pod(name or f"pod-{uid}", uid=uid, node=node, requests=requests, resource_claims=asked)
    statuses = tuple(PodClaimStatus(name=each, resource_claim_name=object_name) for each, object_name in made)
    return msgspec.structs.replace(pod, status=PodStatus(resource_claim_statuses=statuses))


def node_with(uuids, *, offered=None, name="node-1", gres="gpu", taints=(), shared=None, **more):
    """A node whose slurmd lists the devices with these uuids, and whose driver offers others if that is said.

    `shared`: how much memory there is of which each device takes 6Gi.
    """
    extra = msgspec.json.encode({gres: [f"nvidia{at} {uuid} -" for at, uuid in enumerate(uuids)]}).decode()
    devices = [
        {"name": f"gpu-{at}", "attributes": {"uuid": {"string": uuid}}, "taints": list(taints), **more}
        for at, uuid in enumerate(uuids if offered is None else offered)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    specs = [spec] if devices else []
    if shared is not None:
        uses = [{"counterSet": "card", "counters": {"memory": {"value": "6Gi"}}}]
        has = [{"name": "card", "counters": {"memory": {"value": shared}}}]
        pool |= {"resourceSliceCount": 2}
        spec["devices"] = [each | {"consumesCounters": uses} for each in devices]
        specs.append({"driver": DRIVER, "nodeName": name, "pool": pool, "sharedCounters": has})
    slices = [msgspec.convert({"spec": each}, ResourceSlice) for each in specs]
    known = {"offered": current_devices(slices), "counters": current_counters(slices)}
    return DevicesOnNode(node=name, listed=read_extra(extra), **known)


def device(at, pool="node-1"):
    return DeviceId(DRIVER, pool, f"gpu-{at}")
