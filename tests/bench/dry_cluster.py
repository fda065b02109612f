"""A cluster of any size that exists as text alone: nodes, slurmd pods and other pods, as an apiserver would send them.

`DryConnection` stands where the connection to an apiserver stands: lists are made page by page when they are asked for,
watches tell what the bench says, writes are counted and answered, and nothing else happens.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Node
from sunkpy.core.nodeset.slurmd_pod import build_pod
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube import errors, paths
from sunkpy.kube.connection import Request

Body = dict[str, object]

OTHERS_PER_NODE = 2
NODESET = msgspec.convert(
    {
        "metadata": {
            "name": "gpu", "namespace": "slurm", "uid": "nodeset-uid", "generation": 1, "resourceVersion": "1",
            "finalizers": [names.FINALIZER_NODESET],
        },
        "spec": {
            "cluster": "c1",
            "gpu": {"resource": "nvidia.com/gpu", "type": "h100"},
            "template": {
                "spec": {
                    "nodeSelector": {"pool": "gpu"},
                    "containers": [
                        {"name": "slurmd", "image": "slurmd:1", "resources": {"requests": {"cpu": "1"}}}
                    ],
                }
            },
        },
    },
    NodeSet,
)  # fmt: skip


def managed_fields(size: int) -> list[Body]:
    """What server-side apply keeps beside each object: half of its text, read by nobody here."""
    fields = {f"f:field-{number}": {".": {}, "f:type": {}, "f:status": {}} for number in range(size)}
    return [
        {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    ]


def node_body(number: int, **spec: object) -> Body:
    """A GPU machine as a cloud's kubelet reports it."""
    name = f"ip-10-{number >> 16 & 255}-{number >> 8 & 255}-{number & 255}.eu-central-1.compute.internal"
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    labels = {f"node.example.com/label-{n}": f"value-{n}" for n in range(20)}
    pod = slurmd_name(number)
    ours = {
        names.LABEL_CLUSTER: "c1", names.LABEL_NODESET: "gpu", names.LABEL_NAMESPACE: "slurm", names.LABEL_POD: pod,
    }  # fmt: skip
    moment = "2026-11-20T11:00:00Z"
    return {
        "metadata": {
            "name": name, "uid": f"node-uid-{number:08}-aaaa-bbbb-cccc", "resourceVersion": "1",
            "creationTimestamp": moment,
            "labels": {**labels, "pool": "gpu", "kubernetes.io/hostname": name, **ours},
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": json.dumps({"ebs.csi.aws.com": f"i-{number:017x}"}),
                "node.alpha.kubernetes.io/ttl": "0",
                "kubectl.kubernetes.io/last-applied-configuration": "x" * 400,
                names.ANNOTATION_PLACED_ON: pod,
            },
            "managedFields": managed_fields(60),
        },
        "spec": {"podCIDR": "10.1.0.0/24", "providerID": f"aws:///i-{number:017x}", **spec},
        "status": {
            "capacity": {"cpu": "96", "memory": "1056Gi", "pods": "110", "nvidia.com/gpu": "8"},
            "allocatable": {"cpu": "95", "memory": "1024Gi", "pods": "110", "nvidia.com/gpu": "8"},
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "conditions": [
                {
                    "type": type_, "status": status, "reason": "KubeletHas", "message": "kubelet has sufficient of it",
                    "lastHeartbeatTime": moment, "lastTransitionTime": moment,
                }
                for type_, status in [
                    ("Ready", "True"), ("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False"),
                ]
            ]
            + [{"type": type_, "status": "False", "lastTransitionTime": moment} for type_ in names.NODE_CONDITIONS],
            "images": [
                {"names": [f"registry.example.com/image-{n}@sha256:{n:064x}", f"registry.example.com/image-{n}:v{n}"]}
                for n in range(30)
            ],
            "nodeInfo": {"machineID": "x" * 32, "kernelVersion": "6.8.0", "osImage": "Debian"},
        },
    }  # fmt: skip


def slurmd_name(number: int) -> str:
    """The slurmd pod of a node, and its Slurm node."""
    return f"gpu-{number >> 16 & 255:03}-{number >> 8 & 255:03}-{number & 255:03}"


def slurmd_body(number: int, *, running: str = "False") -> Body:
    """The slurmd pod of a node, ready and idle."""
    node = msgspec.convert(node_body(number), Node)
    body = build_pod(NODESET, node, slurmd_name(number))
    metadata, spec = body["metadata"], body["spec"]
    assert isinstance(metadata, dict)
    assert isinstance(spec, dict)
    metadata |= {
        "uid": f"pod-uid-{number:08}-aaaa-bbbb-cccc", "resourceVersion": "1",
        "creationTimestamp": "2026-11-20T11:00:00Z", "managedFields": managed_fields(40),
    }  # fmt: skip
    spec["nodeName"] = node.name
    told = {
        "Ready": "True", "Initialized": "True", "ContainersReady": "True", "PodScheduled": "True",
        names.READINESS_GATE: "True", **dict.fromkeys(names.SLURM_CONDITIONS, "False"),
        names.CONDITION_RUNNING: running,
    }  # fmt: skip
    conditions = [{"type": type_, "status": status, "lastTransitionTime": None} for type_, status in told.items()]
    state = {"running": {"startedAt": "2026-11-20T11:00:10Z"}}
    status = {"name": "slurmd", "ready": True, "restartCount": 0, "state": state, "image": "x", "imageID": "y" * 80}
    return {**body, "status": {"phase": "Running", "conditions": conditions, "containerStatuses": [status]}}


def other_body(number: int, nth: int) -> Body:
    """A pod of a DaemonSet of the platform."""
    node = msgspec.convert(node_body(number), Node)
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}
    mounts = [{"name": f"volume-{n}", "mountPath": f"/mnt/{n}"} for n in range(6)]
    container = {"name": "agent", "image": "agent:1", "resources": resources, "volumeMounts": mounts}
    condition = {"status": "True", "lastTransitionTime": "2026-11-20T11:00:00Z"}
    return {
        "metadata": {
            "name": f"agent-{nth}-{number:05}", "namespace": "kube-system", "resourceVersion": "1",
            "uid": f"other-uid-{nth}-{number:08}-aaaa-bbbb",
            "labels": {"app": f"agent-{nth}", "controller-revision-hash": "abcdef", "pod-template-generation": "1"},
            "annotations": {"checksum/config": "0" * 64},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": f"agent-{nth}", "uid": "u", "controller": True}
            ],
            "creationTimestamp": "2026-11-20T11:00:00Z", "managedFields": managed_fields(40),
        },
        "spec": {
            "nodeName": node.name, "containers": [container, {**container, "name": "sidecar"}],
            "tolerations": [{"operator": "Exists"}], "volumes": [{"name": f"volume-{n}"} for n in range(6)],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": type_, **condition} for type_ in ("Ready", "Initialized", "PodScheduled")],
            "containerStatuses": [{"name": "agent", "ready": True, "state": {"running": {}}, "imageID": "y" * 80}],
        },
    }  # fmt: skip


class DryConnection:
    """So many nodes, with a slurmd pod on each or on none."""

    def __init__(self, size: int, *, has_pods: bool) -> None:
        self.size = size
        self.has_pods = has_pods
        self.sent: Counter[str] = Counter()
        self.created = 0
        self.nodeset = NODESET
        self._events: dict[str, asyncio.Queue[bytes]] = {paths.NODES: asyncio.Queue(), paths.ALL_PODS: asyncio.Queue()}
        self._versions = itertools.count(1_000_000)

    def event(self, body: Body) -> tuple[str, bytes]:
        """The line of a watch that shows how an object has changed, and its new version."""
        version = str(next(self._versions))
        meta = body["metadata"]
        assert isinstance(meta, dict)
        meta["resourceVersion"] = version
        return version, json.dumps({"type": "MODIFIED", "object": body}).encode()

    def tell(self, path: str, line: bytes) -> None:
        """The watch of a collection shows it."""
        self._events[path].put_nowait(line)

    async def send(self, request: Request) -> bytes:
        """Any request but a watch."""
        self.sent[request.method] += 1
        if request.method == "GET" and request.path == paths.nodeset(*NODESET.key):
            return msgspec.json.encode(self.nodeset)
        if request.method == "GET":
            return self._list(request.path, request.params)
        if request.method == "POST" and request.path == paths.pods(NODESET.metadata.namespace):
            assert request.body is not None
            self.created += not request.params
            body = dict(request.body)
            made = {
                "uid": f"made-{self.sent['POST']}",
                "resourceVersion": "2",
                "creationTimestamp": "2026-11-20T12:00:00Z",
            }
            return json.dumps({**body, "metadata": {**body["metadata"], **made}}).encode()
        if (
            request.method == "PATCH"
            and request.path.endswith("/status")
            and request.path.startswith(paths.nodeset(*NODESET.key))
        ):
            status = msgspec.convert({"status": request.body["status"]}, NodeSet).status
            self.nodeset = msgspec.structs.replace(self.nodeset, status=status)
        return b"{}"

    async def stream(self, request: Request, on_open: Callable[[], None]) -> AsyncIterator[bytes]:
        """The lines of a watch, without end."""
        on_open()
        events = self._events[request.path]
        while True:
            yield await events.get()

    async def close(self) -> None:
        """Nothing is open."""

    def _list(self, path: str, params: Mapping[str, str]) -> bytes:
        if path not in self._events:
            raise errors.NotFound(path, status=404, message="the dry cluster has no such thing")
        limit, start = int(params.get("limit", "0")), int(params.get("continue", "0"))
        bodies = self._nodes(start, limit) if path == paths.NODES else self._pods(start, limit)
        items = b",".join(json.dumps(body).encode() for body in bodies)
        end = start + limit if limit else 0
        total = self.size if path == paths.NODES else self.size * (OTHERS_PER_NODE + self.has_pods)
        more = f'"continue":"{end}",' if limit and end < total else ""
        return b'{"metadata":{' + more.encode() + b'"resourceVersion":"999"},"items":[' + items + b"]}"

    def _nodes(self, start: int, limit: int) -> Iterator[Body]:
        return (node_body(number) for number in range(start, min(start + limit, self.size) if limit else self.size))

    def _pods(self, start: int, limit: int) -> Iterator[Body]:
        kinds = OTHERS_PER_NODE + self.has_pods
        total = self.size * kinds
        for index in range(start, min(start + limit, total) if limit else total):
            number, kind = divmod(index, kinds)
            yield other_body(number, kind) if kind < OTHERS_PER_NODE else slurmd_body(number)
