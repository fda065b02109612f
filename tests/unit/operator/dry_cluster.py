"""An operator over a cluster of any size that exists as text alone, as an apiserver would send it.

`DryConnection` stands where the connection to an apiserver stands: lists are made page by page when they are asked for,
watches tell what the test says, writes are counted and answered, and nothing else happens.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import KubeObject, Node
from sunkpy.core.nodeset.slurmd_pod import build_pod
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.connection import Request
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.settings import OperatorSettings
from sunkpy.operator.term import Term
from sunkpy.runtime.process import Process

Body = dict[str, object]
Call = Callable[[], Awaitable[None]]

_MADE = "2026-11-20T11:00:00Z"
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


def node_body(number: int, **spec: object) -> Body:
    """A GPU machine that has its slurmd pod."""
    name, pod = f"ip-10-0-{number >> 8 & 255}-{number & 255}.compute.internal", slurmd_name(number)
    ours = {
        names.LABEL_CLUSTER: "c1", names.LABEL_NODESET: "gpu", names.LABEL_NAMESPACE: "slurm", names.LABEL_POD: pod,
    }  # fmt: skip
    size = {"cpu": "95", "memory": "1024Gi", "pods": "110", "nvidia.com/gpu": "8"}
    told = {"Ready": "True", **dict.fromkeys(names.NODE_CONDITIONS, "False")}
    return {
        "metadata": {
            "name": name, "uid": f"node-uid-{number}", "resourceVersion": "1", "creationTimestamp": _MADE,
            "labels": {"pool": "gpu", "kubernetes.io/hostname": name, **ours},
            "annotations": {
                names.ANNOTATION_PLACED_ON: pod,
                **dict.fromkeys(names.AUTOSCALER_MARKS, "true"),
                names.ANNOTATION_KEPT: ",".join(names.AUTOSCALER_MARKS),
            },
        },
        "spec": spec,
        "status": {"capacity": size, "allocatable": size, "conditions": _conditions(told)},
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
    metadata |= {"uid": f"pod-uid-{number}", "resourceVersion": "1", "creationTimestamp": _MADE}
    spec["nodeName"] = node.name
    told = {
        "Ready": "True", names.READINESS_GATE: "True", **dict.fromkeys(names.SLURM_CONDITIONS, "False"),
        names.CONDITION_RUNNING: running,
    }  # fmt: skip
    return {**body, "status": {"phase": "Running", "conditions": _conditions(told)}}


def other_body(number: int, nth: int) -> Body:
    """A pod of a DaemonSet of the platform."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": f"agent-{nth}", "uid": "u", "controller": True}
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    return {
        "metadata": {
            "name": f"agent-{nth}-{number:05}", "namespace": "kube-system", "resourceVersion": "1",
            "uid": f"other-uid-{nth}-{number}", "creationTimestamp": _MADE, "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": msgspec.convert(node_body(number), Node).name,
            "containers": [{"name": "agent", "image": "agent:1", "resources": resources}],
        },
        "status": {"phase": "Running", "conditions": _conditions({"Ready": "True"})},
    }  # fmt: skip


def _conditions(told: Mapping[str, str]) -> list[Body]:
    return [{"type": type_, "status": status, "lastTransitionTime": _MADE} for type_, status in told.items()]


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


class DryOperator:
    """The parts of a term over a dry cluster; the queues are left alone, the test makes each pass itself."""

    def __init__(self, connection: DryConnection) -> None:
        self.connection = connection
        process = Process("operator", OperatorSettings())
        self.term = Term(Kube(connection), process, OperatorSettings(), OperatorMetrics(process.registry))
        self._told, self._version = asyncio.Event(), ""
        for watch in (self.term.node_watch, self.term.pod_watch):
            watch.add_handler(self._hear)
        self._watches = [
            asyncio.ensure_future(self.term.node_watch.run()),
            asyncio.ensure_future(self.term.pod_watch.run()),
        ]

    @classmethod
    async def start(cls, size: int, *, has_pods: bool) -> DryOperator:
        """Return when both watches have listed."""
        running = cls(DryConnection(size, has_pods=has_pods))
        running.term.nodeset_seen(NODESET, False)
        await running.term.node_watch.synced.wait()
        await running.term.pod_watch.synced.wait()
        return running

    def _hear(self, _: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None:
            self._version = new.metadata.resource_version
            self._told.set()

    async def _heard(self, version: str) -> None:
        """Wait until the informer has handled an event."""
        while self._version != version:
            self._told.clear()
            await self._told.wait()

    async def stop(self) -> None:
        """End the watches."""
        for task in self._watches:
            task.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)

    async def nodeset_pass(self) -> None:
        """One pass over the NodeSet."""
        await self.term.nodeset_loop.reconcile(NODESET.key)

    def node_pass(self, number: int) -> Call:
        """One pass over one Node."""
        name = _name(node_body(number))

        async def happen() -> None:
            await self.term.node_loop.reconcile(name)

        return happen

    def node_event(self, number: int) -> Call:
        """A Node is cordoned, and what follows for the NodeSet."""
        return self._event(paths.NODES, node_body(number, unschedulable=True))

    def pod_event(self, number: int) -> Call:
        """A job starts on a Slurm node, and what follows for the NodeSet."""
        return self._event(paths.ALL_PODS, slurmd_body(number, running="True"))

    def _event(self, path: str, body: Body) -> Call:
        version, line = self.connection.event(body)

        async def happen() -> None:
            self.connection.tell(path, line)
            await self._heard(version)
            await self.nodeset_pass()

        return happen


def _name(body: dict[str, object]) -> str:
    meta = body["metadata"]
    assert isinstance(meta, dict)
    return str(meta["name"])
