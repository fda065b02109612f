"""Other users' objects in a cluster with one good pod: daemons, finished Jobs, owners of many kinds, pods that wait.

All are in one namespace. Each pod that comes and goes has labels of its own, as pods of Jobs, indices and replicas do.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from functools import partial

from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from tests.bench.burst.load import Pods
from tests.bench.ground import PATIENCE_S, in_flight, make_if_missing
from tests.bench.simulated import POOL
from tests.polling import until

NAMESPACE = "crowd"
BY_DAEMONS_GIB, DISK_GIB = 10, 15
"""The disk that daemons use on each node, and the whole disk. Waiting pods ask for as much as the daemons use, so
they fit nowhere.
"""
_DAEMON_PORTS = (9100, 9400, 9500, 9600)
_KINDS_GROUP = "crowd.example.com"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_AT_ONCE = 24
_JOBS_AT_ONCE = 500
_HUGE_AT_ONCE = 4
OTHERS = "default-scheduler"
_DONE = {"status": {"phase": "Succeeded"}}

Body = dict[str, object]


def pod(
    name: str,
    *,
    scheduler: str = "slurm",
    node: str = "",
    pool: str = "",
    disk_mib: int = 0,
    ports: Sequence[int] = (),
    owner: Body | None = None,
    affinity: Body | None = None,
    containers: int = 0,
) -> Body:
    """Return a small pod with labels of its own. With a `node` it is bound, and asks for nothing that Slurm counts.
    `containers`: how many tiny ones it has in place of one.
    """
    asks = {"ephemeral-storage": f"{disk_mib}Mi"} if disk_mib else {}
    asks |= {} if node else {"cpu": "1", "memory": "16Mi"}
    container = {
        "name": "main", "image": "none", "resources": {"requests": asks},
        "ports": [{"containerPort": port, "hostPort": port} for port in ports],
    }  # fmt: skip
    tiny = [
        {"name": f"c{number}", "image": "none", "resources": {"requests": {"cpu": "0", "memory": f"{number % 999}"}}}
        for number in range(containers)
    ]
    spec: Body = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": tiny or [container]}
    spec |= {"nodeName": node} if node else {}
    spec |= {"nodeSelector": {POOL: pool}} if pool else {}
    spec |= {"affinity": affinity} if affinity else {}
    labels = {"batch.kubernetes.io/job-name": name, "batch.kubernetes.io/controller-uid": f"uid-{name}"}
    return {"metadata": {"name": name, "labels": labels, "ownerReferences": [owner] if owner else []}, "spec": spec}


class Crowd:
    """The crowd of objects in a cluster with these nodes. The largest pods are on the `first` node."""

    def __init__(self, kube: Kube, nodes: Sequence[str]) -> None:
        self._kube = kube
        self._nodes = nodes
        self.first = nodes[0]
        self.pods = Pods(kube, namespace=NAMESPACE)

    async def settle(self, *, jobs: int, kinds: int, waiting: int) -> None:
        """Create daemons, finished Jobs, and pods that wait for ever."""
        await self.pods.create([*self._daemons(), self._operator()])
        await self._finish_jobs(jobs)
        await self._stand_below(kinds)
        never = {f"waits-{number}" for number in range(waiting)}
        await self.pods.create([pod(name, disk_mib=BY_DAEMONS_GIB * 1024) for name in never])
        await self.pods.until(lambda: never <= self.pods.waits, what="all were told to wait")

    def _daemons(self) -> Iterator[Body]:
        for node in self._nodes:
            for port in _DAEMON_PORTS:
                disk_mib = BY_DAEMONS_GIB * 1024 if port == _DAEMON_PORTS[0] else 0
                yield pod(f"daemon-{port}-{node}", scheduler=OTHERS, node=node, ports=[port], disk_mib=disk_mib)

    def _operator(self) -> Body:
        """Return a pod as of a CNI's operator, with anti-affinity to its kind: every pod is compared with it."""
        return pod("operator", scheduler=OTHERS, node=self.first, affinity=_apart("app", ["operator"]))

    async def _finish_jobs(self, count: int) -> None:
        """Run Jobs under Slurm jobs, and leave them there when they have finished."""
        jobs = [f"job-{number}" for number in range(count)]
        for first in range(0, count, _JOBS_AT_ONCE):
            some = jobs[first : first + _JOBS_AT_ONCE]
            await in_flight(_AT_ONCE, (partial(self._start_job, name) for name in some))
            await self.pods.until_bound(some)
            await in_flight(
                _AT_ONCE, (partial(self._kube.patch, paths.status(paths.pod(NAMESPACE, name)), _DONE) for name in some)
            )

    async def _start_job(self, name: str) -> None:
        await self._kube.create(paths.pods(NAMESPACE), pod(name, owner=await self._job(name)))

    async def _job(self, name: str) -> Body:
        template = {
            "spec": {
                "schedulerName": "slurm", "restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}],
            }
        }  # fmt: skip
        made = await self._kube.create(
            paths.jobs(NAMESPACE), {"metadata": {"name": name}, "spec": {"template": template}}
        )
        return _controller(json.loads(made))

    async def _stand_below(self, kinds: int) -> None:
        """Create a waiting pod below an owner of each of `kinds` kinds."""

        async def stand(number: int) -> None:
            made = await self._define(f"Kind{number}", f"kind{number}s")
            await self._kube.create(
                paths.pods(NAMESPACE), pod(f"below-{number}", pool="nowhere", owner=_controller(made))
            )

        await in_flight(kinds, (partial(stand, number) for number in range(kinds)))

    async def _define(self, kind: str, plural: str) -> Body:
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        spec = {
            "group": _KINDS_GROUP, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [version],
        }  # fmt: skip
        await make_if_missing(
            self._kube, _DEFINITIONS, {"metadata": {"name": f"{plural}.{_KINDS_GROUP}"}, "spec": spec}
        )
        path = f"/apis/{_KINDS_GROUP}/v1/namespaces/{NAMESPACE}/{plural}"
        body = {"apiVersion": f"{_KINDS_GROUP}/v1", "kind": kind, "metadata": {"name": "one"}}
        made: list[bytes] = []

        async def is_served() -> bool:
            with contextlib.suppress(errors.KubeError):
                made.append(await self._kube.create(path, body))
            return bool(made)

        await until(is_served, timeout_s=PATIENCE_S, what=f"{plural} are served")
        return dict(json.loads(made[0]))

    async def arrive(self, name: str, *, each_s: float, for_s: float) -> float:
        """Create `each_s` bound pods of another scheduler a second, for `for_s` seconds. Return how many came."""
        began_s, count = time.monotonic(), round(each_s * for_s)

        async def make(number: int) -> None:
            await asyncio.sleep(began_s + number / each_s - time.monotonic())
            node = self._nodes[number % len(self._nodes)]
            await self._kube.create(paths.pods(NAMESPACE), pod(f"{name}-{number}", scheduler=OTHERS, node=node))

        await in_flight(_AT_ONCE, (partial(make, number) for number in range(count)))
        return count / (time.monotonic() - began_s)

    async def submit(self, name: str, count: int, *, scheduler: str = "slurm") -> float:
        """Create pods of a scheduler at once, which ask for disk, too. Return the seconds until all are bound."""
        began_s, names = time.monotonic(), [f"{name}-{number}" for number in range(count)]
        await self.pods.create([pod(each, scheduler=scheduler, disk_mib=1) for each in names])
        return await self.pods.until_bound(names) - began_s

    async def swell(self, count: int) -> None:
        """Create pods of a megabyte: on the first node with many labels or containers, or waiting with an affinity."""
        await in_flight(_HUGE_AT_ONCE, (partial(self._make_huge, number) for number in range(count)))

    async def _make_huge(self, number: int) -> None:
        name, node = f"huge-{number}", self.first
        match number % 3:
            case 0:
                body = pod(name, scheduler=OTHERS, node=node)
                body["metadata"] = {"name": name, "labels": {f"l{each:x}": "" for each in range(20_000)}}
            case 1:
                body = pod(name, scheduler=OTHERS, node=node, containers=4_000)
            case _:
                body = pod(name, affinity=_apart("app", [f"value-{each}" for each in range(60_000)]))
        await self._kube.create(paths.pods(NAMESPACE), body)

    async def leave(self, *prefixes: str) -> None:
        for prefix in prefixes:
            await self.pods.remove(prefix)


def _apart(label: str, values: Sequence[str]) -> Body:
    lines = [{"key": label, "operator": "In", "values": values}]
    term = {"labelSelector": {"matchExpressions": lines}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _controller(owner: Body) -> Body:
    metadata = owner["metadata"]
    assert isinstance(metadata, dict)
    return {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"],
        "controller": True,
    }  # fmt: skip
