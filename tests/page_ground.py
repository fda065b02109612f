"""A pool on the doubles of the apiserver and of slurmrestd, and the page in front of it, for tests and benches."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from sunkpy.cli.connected import Sides
from sunkpy.cli.page import ClusterSource
from sunkpy.core import names
from sunkpy.core.gang.access import AccessRule
from sunkpy.core.model.times import rfc3339
from sunkpy.core.page.tables import namespaces_in
from sunkpy.kube.client import Kube
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.slurm import Slurm
from sunkpy.web.auth import ClusterDoor, Doorkeeper, LocalDoor
from sunkpy.web.feed import Feed
from sunkpy.web.server import PageServer
from sunkpy.web.sessions import Sessions
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import Changes, answering, serving
from tests.doubles.slurmrestd import Slurmrestd

KEY = "the-key-of-the-link"
_USERS, _TEAMS, _REASONS = 40, 6, ("Priority", "Resources", "Dependency", "QOSMaxGRESPerUser", "JobHeldAdmin")
_NODESET = {
    "apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "name": "gpu", "uid": "nodeset-1", "controller": True,
}  # fmt: skip


def number(value: int) -> dict[str, Any]:
    """As slurmrestd writes one that may be missing."""
    return {"set": True, "infinite": False, "number": value}


class Pool:
    """Both doubles with `nodes` nodes and their jobs, which a test then changes."""

    def __init__(self, *, nodes: int = 0, jobs: int = 0, seed: int = 1) -> None:
        changes = Changes()
        self.api, self.slurm = Apiserver(changes), Slurmrestd(changes)
        self.api.define("v1", "ConfigMap", "configmaps")
        self.random = random.Random(seed)
        self.now = datetime.now(UTC)
        self.api.put("nodesets", {"metadata": {"name": "gpu", "namespace": "slurm"}, "spec": {"gpu": {}}})
        self.free = [f"gpu-{at:04d}" for at in range(1, nodes + 1)]
        for name in self.free:
            self.add_node(name)
        self.random.shuffle(self.free)
        for at in range(nodes // 40):
            self.slurm.put(
                self.free.pop(), *(("IDLE", "DRAIN") if at % 3 else ("DOWN", "NOT_RESPONDING")), reason="fan 3"
            )
        left, self.free = self.free[: nodes // 8], self.free[nodes // 8 :]
        for at in range(jobs):
            self.add_some_job(at)
        self.free += left

    def ago(self, minutes: float) -> str:
        """The time that was `minutes` before the pool was made."""
        return rfc3339(self.now - timedelta(minutes=minutes))

    def seconds(self, minutes: float) -> dict[str, Any]:
        """The same as Slurm has it."""
        return number(int(self.now.timestamp() - 60 * minutes))

    def add_node(self, name: str) -> None:
        """Add a node to Kubernetes and to Slurm."""
        ready = [{"type": "Ready", "status": "True", "lastTransitionTime": self.ago(90)}]
        allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
        self.api.put("nodes", {"metadata": {"name": name}, "status": {"allocatable": allocatable, "conditions": ready}})
        labels = {
            names.LABEL_ROLE: names.ROLE_COMPUTE, names.LABEL_CLUSTER: "c1", names.LABEL_SLURM_NODE: name,
            names.LABEL_NODESET: "gpu",
        }  # fmt: skip
        meta = {"name": f"slurm-{name}", "namespace": "slurm", "labels": labels, "ownerReferences": [_NODESET]}
        self.api.put("pods", {"metadata": meta, "spec": {"nodeName": name}, "status": {"phase": "Running"}})
        self.slurm.put(name, "IDLE", gres="gpu:h100:8", cpus=64)

    def add_some_job(self, at: int) -> int:
        """A sixth runs, while nodes are free; each third is that of a pod."""
        user, name = f"user{at % _USERS}", f"job-{at}"
        of_pod = at % 3 == 0
        if of_pod and at % 6 == 0 and self.free:
            return self.run_pod(f"team-{at % _TEAMS}", name, self.free.pop())
        if at % 6 == 1 and self.free:
            return self.run_job(name, user, self.free.pop())
        comment = {"comment": f"k8s:team-{at % _TEAMS}/{name}:uid-{at}"} if of_pod else {"comment": ""}
        fields = {
            "user_name": "k8s" if of_pod else user, "name": name, "account": f"group{at % 7}",
            "state_reason": _REASONS[at % 5 if at % 50 else 4], "priority": number(10_000 - at),
            "node_count": number(1 + at % 4), "submit_time": self.seconds(self.random.uniform(1, 300)),
            "tres_req_str": f"cpu=8,gres/gpu={1 + at % 8}", "partition": "high" if at % 11 == 0 else "low",
        }  # fmt: skip
        comment["admin_comment"] = comment["comment"]
        return self.slurm.add_job("PENDING", **comment, **fields)

    def run_job(self, name: str, user: str, node: str, **more: Any) -> int:
        """A job of a person that has a node."""
        gpus = self.random.choice((2, 4, 8, 8))
        self.slurm.put(node, "ALLOCATED" if gpus == 8 else "MIXED")
        fields = {
            "name": name, "account": "group1", "nodes": node, "start_time": self.seconds(self.random.uniform(1, 200)),
            "tres_alloc_str": f"cpu=8,gres/gpu={gpus}", "gres_detail": [f"gpu:h100:{gpus}(IDX:0-{gpus - 1})"],
            "job_resources": {"nodes": {"allocation": [{"name": node}]}},
        }  # fmt: skip
        return self.slurm.add_job("RUNNING", user=user, **({"comment": ""} | fields | more))

    def run_pod(self, namespace: str, name: str, node: str) -> int:
        """A pod that has a node by its job."""
        comment = f"k8s:{namespace}/{name}:uid-{name}"
        job = self.run_job(name, "k8s", node, comment=comment, admin_comment=comment)
        self.add_pod(namespace, name, node, job=job)
        return job

    def add_pod(self, namespace: str, name: str, node: str = "", *, job: int = 0, message: str = "") -> None:
        """A pod for Slurm; `message`: what the scheduler says that it waits for."""
        meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "annotations": {}}
        meta["annotations"] = {names.ANNOTATION_JOB_ID: str(job)} if job else {}
        spec = {"schedulerName": "slurm", "nodeName": node, "containers": [{"name": "c"}]}
        running = [{"name": "c", "state": {"running": {"startedAt": self.ago(30)}}}]
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        status = (
            {"phase": "Running", "containerStatuses": running} if node else {"phase": "Pending", "conditions": [said]}
        )
        self.api.put("pods", {"metadata": meta, "spec": spec, "status": status})

    def preempt(self, namespace: str, name: str, job: int, by: int, minutes: float) -> None:
        """What the scheduler writes of a pod that lost its node."""
        by_whom = f"by Slurm job {by} (user {self.slurm.jobs[by]['user_name']}, partition high)"
        self.add_event(
            "Pod",
            namespace,
            name,
            "PreemptionByScheduler",
            f"Slurm job {job} was preempted {by_whom}; the pod is evicted",
            minutes,
        )

    def add_event(self, kind: str, namespace: str, name: str, reason: str, message: str, minutes: float) -> None:
        """An Event of the scheduler, or of the operator about Nodes."""
        by = "sunkpy.dev/scheduler" if kind == "Pod" else "sunkpy.dev/operator"
        about = {"kind": kind, "namespace": namespace, "name": name}
        body = {
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "type": "Warning",
            "reportingComponent": by,
        }
        meta = {"name": f"{name}.{reason.lower()}.{minutes}", "namespace": namespace or "default"}
        self.api.put("events", body | {"metadata": meta, "eventTime": self.ago(minutes)})


class Shown(NamedTuple):
    """A page that is served."""

    url: str
    feed: Feed


@asynccontextmanager
async def page_of(
    pool: Pool,
    folder: Path,
    *,
    is_shared: bool = False,
    every_s: float = 5.0,
    dashboards: str = "",
    private_jobs: bool = False,
) -> AsyncIterator[Shown]:
    """The page in front of a pool: for one person by `KEY`, or for all by their tokens."""
    access = (AccessRule(namespaces=("*",), partitions=("*",)),)
    (folder / "jwt.key").write_bytes(b"k" * 32)
    async with answering(pool.api.handle, folder) as kubeconfig, serving(pool.slurm.app()) as port:
        url = f"http://127.0.0.1:{port}"
        slurm_settings = SlurmSettings(url=url, user="k8s", jwt_key_file=str(folder / "jwt.key"))
        settings = SchedulerSettings(cluster="c1", namespace="slurm", slurm=slurm_settings, access=access)
        slurm = Slurm.connect(slurm_settings)
        async with await Kube.connect(kubeconfig) as kube:
            sides = Sides(kube=kube, slurm=slurm, settings=settings)
            feed = Feed(ClusterSource(sides, "slurm", private_jobs=private_jobs), every_s=every_s)
            door: Doorkeeper = LocalDoor(KEY)
            if is_shared:
                seen = lambda: namespaces_in(feed.tables)  # noqa: E731
                (folder / "page.key").write_text("p" * 64)
                sessions = Sessions(folder / "page.key")
                door = ClusterDoor(kube, namespace="slurm", namespaces=seen, slurm_url=url, sessions=sessions)
            async with serving(PageServer(feed, door, dashboards=dashboards).app()) as own, running(feed):
                yield Shown(f"http://127.0.0.1:{own}", feed)
        await slurm.close()


@asynccontextmanager
async def running(feed: Feed) -> AsyncIterator[None]:
    """Reads until the end of the block."""
    task = asyncio.ensure_future(feed.run())
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
