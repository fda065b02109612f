"""The environment of one size: a control plane with that many Nodes, KWOK in place of kubelets, Slurm, and sunkpy.

KWOK keeps Nodes and pods, and kube-scheduler binds pods. Leases of Nodes are not renewed: at 10,000 nodes that would be
a thousand writes a second, and only the work of sunkpy and its peers is to be measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial

from devcluster.binaries import KWOK, Binaries
from devcluster.state import default_cache
from sunkpy.core import names
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import Pod, PodSpec, PodStatus
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import AlreadyDone, NotFound, SlurmError
from tests.bench import ground, simulated
from tests.bench.ground import ControlPlane, PodWatch, beside, in_flight, make_if_missing
from tests.bench.simulated import AT_ONCE, Pool
from tests.ports import free_ports

Body = dict[str, object]

PEER_NAMESPACE = "peer"
KEEPER, DAEMONS = "kwok", "kube-controller-manager"
_NODESET = "c"
_CONTAINER = {"name": names.SLURMD_CONTAINER, "image": "none"}
_NO_LEASES = "--node-lease-duration-seconds=0"
STARTS_PER_S = 20
_RUNS_S = 10.0
_JOB = JobSpec(name="load", script="#!/bin/sh\n", comment="plain", memory_mib_per_node=64)


def pool_of(size: int) -> Pool:
    """Return so many nodes, whose slurmd pods are those of one NodeSet."""
    return Pool(name="n", size=size, nodeset=_NODESET)


def nodeset() -> Body:
    return simulated.nodeset(_NODESET, {"containers": [_CONTAINER]}, naming="NodeName")


def daemonset(name: str, *, node_selector: dict[str, str]) -> Body:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [_CONTAINER], "nodeSelector": node_selector}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": pod}}


async def furnish(kube: Kube, pool: Pool) -> None:
    await simulated.make_namespace(kube)
    await make_if_missing(kube, paths.NAMESPACES, {"metadata": {"name": PEER_NAMESPACE}})
    await simulated.make_nodesets_known(kube)
    await in_flight(AT_ONCE, (partial(pool.make_node, kube, number, labels={}) for number in range(pool.size)))


async def delete_pods(kube: Kube, namespace: str, which: Sequence[str]) -> None:
    """Delete pods without grace, because no kubelet runs; one by one, because one request for all would time out."""
    gone = (partial(kube.delete, paths.pod(namespace, name), grace_period_s=0) for name in which)
    await in_flight(AT_ONCE, gone)


def start_daemons(plane: ControlPlane, *, is_limited: bool) -> None:
    """Start the DaemonSet controller, with or without its default limit of 20 requests a second."""
    plane.start(
        plane.kubernetes(DAEMONS), f"--kubeconfig={plane.admin}", "--controllers=daemonset-controller",
        "--leader-elect=false", "--secure-port=0", *([] if is_limited else ground.AT_WILL),
    )  # fmt: skip


def start_keeper(plane: ControlPlane) -> None:
    """Start KWOK, which makes bound pods run. At its start it lists the pods of each node, one node after another."""
    binaries = Binaries(default_cache())
    binaries.ensure([KWOK], progress=print)
    (port,) = free_ports(1)
    plane.start(
        str(binaries.kwok / KEEPER), f"--kubeconfig={plane.admin}", "--manage-all-nodes=true",
        "--node-ip=10.1.0.1", "--cidr=10.128.0.0/9", f"--server-address=127.0.0.1:{port}", _NO_LEASES,
    )  # fmt: skip


class Pods(PodWatch):
    """The pods of a namespace: how many there are, and which of them show a drain of their Slurm node."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        super().__init__(Informer(kube, paths.pods(namespace), Pod, keep=_kept))
        self._informer.add_handler(self._see)
        self.told: set[str] = set()
        self.drained: set[str] = set()

    def __len__(self) -> int:
        return len(self._informer)

    @property
    def names(self) -> list[str]:
        return [pod.name for pod in self._informer.values()]

    def _see(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and new.is_condition_true(names.CONDITION_DRAIN):
            self.drained.add(new.name)
        elif old is not None:
            self.drained.discard(old.name)
        if new is not None and new.condition(names.CONDITION_DRAIN) is not None:
            self.told.add(new.name)


def _kept(pod: Pod) -> Pod:
    return Pod(metadata=pod.metadata, spec=PodSpec(), status=PodStatus(conditions=pod.status.conditions))


class Starts:
    """How many submits have succeeded (`submitted`) and failed (`failed`) so far."""

    def __init__(self) -> None:
        self.submitted = 0
        self.failed = 0


@contextlib.asynccontextmanager
async def job_starts(slurm: Slurm) -> AsyncIterator[Starts]:
    """Submit `STARTS_PER_S` jobs a second while the block runs; each job is ended after ten seconds."""
    starts = Starts()
    async with beside(_start_all(slurm, starts)):
        yield starts


async def _start_all(slurm: Slurm, starts: Starts) -> None:
    """Submit jobs at a constant rate, however long slurmctld takes for each."""
    began_s, count = time.monotonic(), 0
    async with asyncio.TaskGroup() as group:
        while True:
            group.create_task(_one(slurm, starts))
            count += 1
            await asyncio.sleep(max(0.0, began_s + count / STARTS_PER_S - time.monotonic()))


async def _one(slurm: Slurm, starts: Starts) -> None:
    try:
        job = (await slurm.submit_job(_JOB)).job_id
        starts.submitted += 1
        await asyncio.sleep(_RUNS_S)
        with contextlib.suppress(AlreadyDone, NotFound):
            await slurm.cancel_job(job)
    except SlurmError:
        starts.failed += 1
