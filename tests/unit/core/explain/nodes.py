"""Nodes as they are met, each with what both sides say of its devices."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sunkpy.core import names
from sunkpy.core.explain.devices import NodeFacts
from sunkpy.core.health import State
from sunkpy.core.model.devices import ResourceClaim, ResourceSlice, current_devices
from sunkpy.core.model.objects import Pod, PodClaim
from sunkpy.core.model.states import JobId, SlurmJob, SlurmNode
from tests.unit.core.gang.devices.claims import claim, node_with
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.health.build import record

UUIDS = ["GPU-a", "GPU-b", "GPU-c"]


def slurm_node(uuids: list[str] = UUIDS, gres: str = "gpu:3") -> SlurmNode:
    listed = [f"nvidia{at} {uuid} -" for at, uuid in enumerate(uuids)]
    return SlurmNode(name="n1", extra=msgspec.json.encode({"gpu": listed}).decode() if uuids else "", gres=gres)


def slurm_job(id: int, *indices: int, user: str = "alice", state: str = "RUNNING") -> SlurmJob:
    devices = {"n1": {"gpu": indices}}
    return SlurmJob(id=JobId(id), user=user, state=frozenset({state}), nodes=("n1",), devices=devices)


def pod(name: str, indices: str, *, job: int = 7, devices: str = "", has_claim: bool = True) -> Pod:
    notes = {names.ANNOTATION_GPU_INDICES: indices, names.ANNOTATION_JOB_ID: str(job)}
    notes |= {names.ANNOTATION_DEVICES: devices} if devices else {}
    claims = (PodClaim(name="gpu", resource_claim_name=f"{name}-gpus"),) if has_claim else ()
    return make_pod(name, uid=name, node="node-1", running=True, annotations=notes, resource_claims=claims)


def owned(name: str, *devices: str) -> ResourceClaim:
    return claim(f"{name}-gpus", user=name, devices=devices)


def node(
    *, uuids: list[str] = UUIDS, offered: list[str] | None = None, taints: object = (), **facts: object
) -> NodeFacts:
    """Its driver offers GPU-c as gpu-0, GPU-b as gpu-1, GPU-a as gpu-2."""
    there = node_with(uuids, offered=list(reversed(UUIDS)) if offered is None else offered, taints=taints).offered
    return NodeFacts(**{"node": "node-1", "slurm": slurm_node(uuids), "offered": there} | facts)


def both_doors() -> NodeFacts:
    jobs = (slurm_job(7, 0, user="k8s"), slurm_job(8, 1))
    return node(jobs=jobs, pods=(pod("web", "0"),), claims=(owned("web", "gpu-2"),))


def other_driver() -> NodeFacts:
    pool, devices = {"name": "node-1"}, [{"name": "nic-0"}]
    spec = {"driver": "nic.example.com", "nodeName": "node-1", "pool": pool, "devices": devices}
    nics = current_devices([msgspec.convert({"spec": spec}, ResourceSlice)])
    return msgspec.structs.replace(node(), offered={**node().offered, **nics})


def slurmd(**annotations: str) -> Pod:
    owner = {"apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "name": "gpu", "uid": "u", "controller": True}
    running = {"name": "slurmd", "state": {"running": {"startedAt": "2026-11-21T00:00:00Z"}}}
    meta = {"name": "n1", "namespace": "slurm", "uid": "of-n1", "ownerReferences": [owner]}
    meta["annotations"] = {f"sunkpy.dev/{name}": text for name, text in annotations.items()}
    return msgspec.convert({"metadata": meta, "status": {"containerStatuses": [running]}}, Pod)


def placed(told: str, record: str) -> NodeFacts:
    slurm = SlurmNode(name="n1", topology=record)
    return node(uuids=[], offered=[], slurm=slurm, pods=(slurmd(topology=told),))


NODES: dict[str, Callable[[], NodeFacts]] = {
    "both-doors": both_doors,
    "free": node,
    "other-driver": other_driver,
    "without-driver": lambda: node(
        offered=[], pods=(pod("web", "0,1", has_claim=False),), jobs=(slurm_job(7, 0, 1, user="k8s"),)
    ),
    "by-plugin": lambda: node(
        offered=[],
        pods=(pod("web", "0,1", has_claim=False, devices="node-1/GPU-a,node-1/GPU-b"),),
        jobs=(slurm_job(7, 0, 1, user="k8s"), slurm_job(8, 2)),
    ),
    "without-uuids": lambda: node(uuids=[], offered=[], slurm=slurm_node([]), jobs=(slurm_job(8, 2),)),
    "set-down": lambda: node(
        slurm=msgspec.structs.replace(slurm_node(), state=frozenset({"DOWN"}), reason="bad dimm"),
    ),
    "rebooted": lambda: node(
        slurm=msgspec.structs.replace(slurm_node(), state=frozenset({"DOWN"}), reason="Node unexpectedly rebooted"),
    ),
    "sick": lambda: node(health=record(State.DRAINED, "label", due="2026-11-28T13:00:00Z")),
    "needs-a-person": lambda: node(
        slurm=msgspec.structs.replace(slurm_node(), state=frozenset({"IDLE", "DRAIN"}), reason="k8s: health: label"),
        health=record(State.PERSON, "label", why="not cured after 60 min"),
    ),
    "list-of-an-earlier-slurmd": lambda: node(pods=(slurmd(),)),
    "placed": lambda: placed("s1/l1", "tree:all:s1/:s1/l1"),
    "label-gone": lambda: placed("s1/l1 (no label topology.nebius.com/tier-1)", "tree:all:s1/:s1/l1"),
    "block-not-in-the-file": lambda: placed("s1/l1 (Slurm's file lacks it)", "tree:all:s1/:s1/l1"),
    "nothing": lambda: node(uuids=[], offered=[], slurm=slurm_node([], gres="")),
    "device-off-the-bus": lambda: node(offered=["GPU-c", "GPU-b"]),
    "device-not-in-slurm": lambda: node(uuids=["GPU-a", "GPU-b"], slurm=slurm_node(["GPU-a", "GPU-b"], "gpu:2")),
    "two-owners": lambda: node(
        jobs=(slurm_job(7, 0, user="k8s"),),
        pods=(pod("web", "0"),),
        claims=(owned("web", "gpu-2"), owned("stranger", "gpu-2")),
    ),
    "pod-and-job": lambda: node(
        jobs=(slurm_job(9, 0),), pods=(pod("web", "0", job=7),), claims=(owned("web", "gpu-2"),)
    ),
    "claim-of-nobody": lambda: node(claims=(claim("left", devices=["gpu-1"]),)),
    "job-completes": lambda: node(
        jobs=(slurm_job(7, 0, user="k8s", state="COMPLETING"), slurm_job(6, 1, state="COMPLETED")),
        pods=(pod("web", "0"),),
        claims=(owned("web", "gpu-2"),),
    ),
    "tainted": lambda: node(taints=[{"key": "sick", "effect": "NoSchedule"}]),
    "types": lambda: node(
        slurm=slurm_node(gres="gpu:a100:2(S:0),gpu:1g.5gb:1"),
        jobs=(slurm_job(7, 2, user="k8s"),),
        pods=(pod("web", "gpu:1g.5gb:2"),),
        claims=(owned("web", "gpu-0"),),
    ),
    "slurm-not-asked": lambda: node(
        slurm=None,
        pods=(pod("web", "0"), pod("counted", "2", job=8, has_claim=False)),
        claims=(owned("web", "gpu-2"),),
        unread=("Slurm's side: not asked",),
    ),
}
