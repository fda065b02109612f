"""Both sides of the mirror in memory: slurmd pods behind `Kube`, Slurm nodes behind the transport of `Slurm`.

They answer with bytes, so everything of the syncer runs as it does in a cluster, decode included, and nothing else
does: the time that they take themselves is counted in `spent_s` and taken off. Answers come as late as those of the
real programs do (facts: one node 3 ms, all of 10,000 1.9 s, unchanged 6 ms), and no more at a time than two cores give.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from sunkpy.core import names
from sunkpy.core.model import hostlist
from sunkpy.core.model.states import NodeComment
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.slurm.connection import Answer
from sunkpy.slurm.request import Request
from sunkpy.slurm.transport import Transport
from tests.unit.slurm.answers import RECORDED, FixedToken, in_json

Body = dict[str, Any]

NAMESPACE = "slurm"
CLUSTER = "sk"
_ONE_S, _UNCHANGED_S, _ALL_EACH_S, _PATCH_S = 0.003, 0.006, 0.00019, 0.003
_CORES = 2


def name_of(number: int) -> str:
    """As NodeSets name them: `gpu-012-002`."""
    return f"gpu-{number // 250:03}-{number % 250:03}"


class Costs:
    """Process time that the doubles took, and how often they were asked."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        self.asked: dict[str, int] = {}
        self.under_way = 0

    @contextmanager
    def own(self) -> Iterator[None]:
        """What runs inside is not the syncer's."""
        started_s = time.thread_time()
        try:
            yield
        finally:
            self.spent_s += time.thread_time() - started_s

    def count(self, what: str) -> None:
        self.asked[what] = self.asked.get(what, 0) + 1

    async def late(self, room: asyncio.Semaphore, took_s: float) -> None:
        """The answer comes after so long, and after those before it."""
        self.under_way += 1
        try:
            async with room:
                await asyncio.sleep(took_s)
        finally:
            self.under_way -= 1


class SlurmSide(Transport):
    """Slurm nodes in the shape that 26.05 was recorded with; each is kept as the JSON that is sent of it."""

    def __init__(self, size: int, costs: Costs) -> None:
        super().__init__("http://slurmrestd", FixedToken(), version="v0.0.45")
        recorded = json.loads((RECORDED / "26.05" / "v0.0.45" / "nodes.json").read_bytes())["body"]
        self._template: Body = recorded["nodes"][0]
        self._costs = costs
        self._room = asyncio.Semaphore(_CORES)
        self.nodes: dict[str, Body] = {}
        self._texts: dict[str, bytes] = {}
        self._version = 1
        self.writes = 0
        self.is_down = False
        for number in range(size):
            self.put(name_of(number), state=["IDLE", "DYNAMIC_NORM"], comment=comment_of(number), alloc_cpus=0)

    def put(self, name: str, **fields: Any) -> None:
        """Change a node, as jobs, admins and the syncer do."""
        address = "10.0.0.1"
        self.nodes[name] = {**self.nodes.get(name, {**self._template, "name": name, "address": address}), **fields}
        self._texts[name] = msgspec.json.encode(self.nodes[name])
        self._version += 1

    def set_busy(self, name: str, *, is_busy: bool) -> None:
        """A job has started or ended."""
        base = "MIXED" if is_busy else "IDLE"
        state = [base, *(flag for flag in self.nodes[name]["state"] if flag not in ("IDLE", "MIXED"))]
        self.put(name, state=state, alloc_cpus=1 if is_busy else 0)

    def is_drained(self, name: str) -> bool:
        return "DRAIN" in self.nodes[name]["state"]

    async def _send(self, request: Request, version: str) -> Answer:
        if self.is_down:
            return in_json(502, {"errors": [{"error_number": 1800}]})
        with self._costs.own():
            self._costs.count(f"{request.method} {request.endpoint}")
            answer, took_s = self._answer(request)
        await self._costs.late(self._room, took_s)
        return answer

    def _answer(self, request: Request) -> tuple[Answer, float]:
        if request.method == "POST":
            return self._update(request)
        if request.endpoint == "node/{name}":
            return self._reply([str(request.name)]), _ONE_S
        if request.endpoint == "nodes/" and request.params.get("update_time", -1) == self._version:
            return Answer(304), _UNCHANGED_S
        if request.endpoint == "nodes/":
            return self._reply(list(self.nodes)), _UNCHANGED_S + _ALL_EACH_S * len(self.nodes)
        meta = {"slurm": {"cluster": CLUSTER, "release": "26.05.5"}}
        return in_json(200, {"meta": meta, "pings": [{"responding": True}]}), _ONE_S

    def _update(self, request: Request) -> tuple[Answer, float]:
        change = json.loads(request.content or b"{}")
        named = change.pop("name", None) or [str(request.name)]
        for name in hostlist.expand(",".join(named)):
            state = set(self.nodes[name]["state"])
            asked = change.get("state", ())
            state = state | {"DRAIN"} if "DRAIN" in asked else state - {"DRAIN"} if "UNDRAIN" in asked else state
            texts = {key: change[key].strip() for key in ("reason", "comment") if key in change}
            self.put(name, **texts, state=sorted(state))
            self.writes += 1
        return in_json(200, {"errors": []}), _ONE_S

    def _reply(self, listed: list[str]) -> Answer:
        version = b'{"set":true,"infinite":false,"number":%d}' % self._version
        joined = b",".join(self._texts[name] for name in listed)
        return Answer(200, b'{"nodes":[%b],"last_update":%b,"errors":[]}' % (joined, version))


class KubeSide(Kube):
    """The slurmd pods, and a watch of them that tells each change at once."""

    def __init__(self, size: int, costs: Costs) -> None:
        self._costs = costs
        self._room = asyncio.Semaphore(_CORES)
        self._pods = {name_of(number): pod_body(number) for number in range(size)}
        self._events: asyncio.Queue[bytes] = asyncio.Queue()
        self._version = size
        self.patched = 0
        self.recorded = 0

    def annotate(self, name: str, **annotations: str | None) -> None:
        """As the operator does."""
        notes = {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
        with self._costs.own():
            self._merge(name, notes, [])

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        """Answers what the syncer asks: the list, one pod, a patch of its status, an Event."""
        with self._costs.own():
            answer = self._handle(method, path, options.get("body") or {})
        if path != paths.pods(NAMESPACE):
            await self._costs.late(self._room, _PATCH_S)
        return answer

    async def watch_lines(
        self, selection: paths.Selection, *, resource_version: str, on_open: Callable[[], None]
    ) -> AsyncIterator[bytes]:
        """One line for each change."""
        on_open()
        while True:
            await asyncio.sleep(0)  # an apiserver sends a few lines at a time
            yield await self._events.get()

    def _handle(self, method: str, path: str, body: Body) -> bytes:
        if path.endswith("/events"):
            self.recorded += 1
            return b"{}"
        name = path.removesuffix("/status").rpartition("/")[2]
        if method == "PATCH":
            self.patched += 1
            self._merge(name, body["metadata"].get("annotations", {}), body["status"]["conditions"])
        if name in self._pods:
            return json.dumps(self._pods[name]).encode()
        return json.dumps({"metadata": {"resourceVersion": "1"}, "items": list(self._pods.values())}).encode()

    def _merge(self, name: str, annotations: dict[str, str | None], conditions: list[Body]) -> None:
        pod = self._pods[name]
        self._version += 1
        meta = pod["metadata"]
        meta["resourceVersion"] = str(self._version)
        meta["annotations"] = {k: v for k, v in (meta["annotations"] | annotations).items() if v is not None}
        found = {c["type"]: c for c in pod["status"]["conditions"]} | {c["type"]: c for c in conditions}
        pod["status"]["conditions"] = list(found.values())
        self._events.put_nowait(json.dumps({"type": "MODIFIED", "object": pod}).encode())


def comment_of(number: int) -> str:
    """What the syncer writes of the pod of that number."""
    name = name_of(number)
    return NodeComment(node=f"n-{number}", namespace=NAMESPACE, pod=name, uid=f"u-{number}", nodeset="gpu").encode()


def pod_body(number: int) -> Body:
    """A slurmd pod as an apiserver gives it, with what nobody reads."""
    name = name_of(number)
    labels = {
        names.LABEL_ROLE: names.ROLE_COMPUTE, names.LABEL_CLUSTER: CLUSTER, names.LABEL_SLURM_NODE: name,
        names.LABEL_NODESET: "gpu",
    }  # fmt: skip
    owner = {
        "apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "name": "gpu", "uid": "nodeset-1", "controller": True,
    }  # fmt: skip
    conditions = [{"type": type_, "status": "True"} for type_ in ("ContainersReady", "PodScheduled", "Initialized")]
    env = [{"name": f"SUNKPY_{n}", "value": "x" * 20} for n in range(12)]
    mounts = [{"name": f"volume-{n}", "mountPath": f"/mnt/{n}"} for n in range(8)]
    requests = {"requests": {"cpu": "250m", "memory": "256Mi"}}
    container = {"name": "slurmd", "image": "i", "env": env, "volumeMounts": mounts, "resources": requests}
    return {
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": f"u-{number}", "resourceVersion": str(number),
            "creationTimestamp": "2026-11-21T00:00:00Z", "labels": labels, "annotations": {},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": f"n-{number}", "containers": [container], "volumes": [{"name": m["name"]} for m in mounts],
            "tolerations": [{"key": f"key-{n}", "operator": "Exists"} for n in range(6)],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": conditions},
    }  # fmt: skip
