"""Pods that are created at once, the same jobs submitted directly to slurmrestd, and when each pod was bound."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Sequence
from functools import partial

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.job.request import PLACEHOLDER_SCRIPT
from sunkpy.core.model import states
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import AlreadyDone, NotFound
from tests.bench.ground import PATIENCE_S, PodWatch, in_flight
from tests.bench.simulated import AT_ONCE, POOL, WORKLOADS
from tests.polling import until

MEMORY_MIB = 64
_PEER_IN_FLIGHT = 10


class Wave(msgspec.Struct, frozen=True, kw_only=True):
    """Equal pods: `count` pods of `cpus` each, in gangs of `gang`. They go to nodes of `pool`; or each to one of
    `nodes`, if these are given.

    With another `scheduler` the pods are not sunkpy's. A service becomes an allocation, which starts at once or is
    refused; other pods become batch jobs.
    """

    name: str
    count: int
    cpus: int = 1
    gang: int = 1
    pool: str = ""
    nodes: tuple[str, ...] = ()
    scheduler: str = "slurm"
    is_service: bool = False

    @property
    def names(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(self.count)]

    @property
    def bodies(self) -> list[dict[str, object]]:
        return [self._pod(number) for number in range(self.count)]

    def _pod(self, number: int) -> dict[str, object]:
        requests = {"cpu": str(self.cpus), "memory": f"{MEMORY_MIB}Mi"}
        annotations = {
            names.ANNOTATION_GANG: f"{self.name}-{number // self.gang}", names.ANNOTATION_GANG_SIZE: str(self.gang),
        }  # fmt: skip
        spec: dict[str, object] = {
            "schedulerName": self.scheduler,
            "restartPolicy": "Always" if self.is_service else "Never",
            "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
        }
        if self.pool:
            spec["nodeSelector"] = {POOL: self.pool}
        if self.nodes:
            spec["nodeSelector"] = {"kubernetes.io/hostname": self.nodes[number]}
        metadata = {"name": f"{self.name}-{number}", "annotations": annotations if self.gang > 1 else {}}
        return {"metadata": metadata, "spec": spec}

    @property
    def jobs(self) -> list[JobSpec]:
        """The jobs that the scheduler would submit for the pods."""
        return [self._job(number) for number in range(self.count // self.gang)]

    def _job(self, number: int) -> JobSpec:
        is_gang = self.gang > 1
        return JobSpec(
            name=f"plain-{number}", script=PLACEHOLDER_SCRIPT, comment="plain", tasks=self.gang,
            maximum_nodes=self.gang, cpus_per_task=self.cpus, memory_mib_per_cpu=MEMORY_MIB if is_gang else 0,
            memory_mib_per_node=0 if is_gang else MEMORY_MIB,
        )  # fmt: skip


class Pods(PodWatch):
    """The pods of a namespace in a watch: when each was created, bound and deleted (monotonic seconds), by name."""

    def __init__(self, kube: Kube, *, namespace: str = WORKLOADS) -> None:
        super().__init__(Informer(kube, paths.pods(namespace), Pod))
        self._kube = kube
        self._namespace = namespace
        self._informer.add_handler(self._see)
        self.created_s: dict[str, float] = {}
        self.bound_s: dict[str, float] = {}
        self.told_s: dict[str, float] = {}
        self.waits: set[str] = set()

    def _see(self, _: Pod | None, new: Pod | None) -> None:
        if new is None:
            return
        if new.spec.node_name:
            self.bound_s.setdefault(new.name, time.monotonic())
        if new.is_deleting:
            self.told_s.setdefault(new.name, time.monotonic())
        if (scheduled := new.condition("PodScheduled")) is not None and scheduled.status == "False":
            self.waits.add(new.name)

    def get(self, name: str) -> Pod | None:
        """Return the pod as the watch last showed it; None if it is gone."""
        return self._informer.get(self._namespace, name)

    def node_and_job_of(self, name: str) -> tuple[str, JobId]:
        pod = self.get(name)
        assert pod is not None
        return pod.spec.node_name, JobId(int(pod.annotations[names.ANNOTATION_JOB_ID]))

    async def create(self, bodies: Sequence[dict[str, object]]) -> None:
        """Create the pods with 16 requests in flight, as a controller does."""

        async def create(body: dict[str, object]) -> None:
            metadata = body["metadata"]
            assert isinstance(metadata, dict)
            self.created_s[metadata["name"]] = time.monotonic()
            await self._kube.create(paths.pods(self._namespace), body)

        await in_flight(AT_ONCE, (partial(create, body) for body in bodies))

    async def until_bound(self, names: Collection[str]) -> float:
        """Wait until all of these pods are bound. Return when that was (monotonic)."""
        wanted = {*names}
        return await self.until(lambda: wanted <= self.bound_s.keys(), what=f"{len(wanted)} pods are bound")

    async def time_one(self, wave: Wave) -> float:
        """Create the only pod of a wave. Return the seconds until it was bound, and delete it."""
        (name,) = wave.names
        await self.create(wave.bodies)
        await self.until_bound(wave.names)
        took_s = self.bound_s[name] - self.created_s[name]
        await self.remove(name)
        return took_s

    async def remove(self, prefix: str) -> None:
        """Delete all pods whose name begins with `prefix`, without grace because no kubelet runs, and forget them. Pods
        that the watch shows late are deleted, too.
        """

        async def delete(name: str) -> None:
            with contextlib.suppress(errors.NotFound):
                await self._kube.delete(paths.pod(self._namespace, name), grace_period_s=0)

        def left() -> set[str]:
            return {pod.name for pod in self._informer.values() if pod.name.startswith(prefix)}

        names, gone = left() | {name for name in self.created_s if name.startswith(prefix)}, set[str]()
        while names:
            await in_flight(AT_ONCE, [partial(delete, name) for name in names])
            gone.update(names)
            await self.until(lambda: left().isdisjoint(gone), what=f"pods {prefix}… are gone")
            names = left() - gone
        for seen in (self.created_s, self.bound_s, self.told_s):
            for name in gone & seen.keys():
                del seen[name]
        self.waits -= gone


async def submit_plain(slurm: Slurm, jobs: Iterable[JobSpec], *, at_once: bool = False, user: str = "") -> list[JobId]:
    """Submit jobs with ten requests in flight, as batch jobs of this user or, with `at_once`, as allocations. Return
    their ids.
    """
    ids: list[JobId] = []

    async def submit(job: JobSpec) -> None:
        made = await (slurm.allocate_now(job) if at_once else slurm.submit_job(job, user=user))
        if made is None:
            raise ValueError(f"Slurm has no room for {job.name} at once")
        ids.append(made.job_id)

    await in_flight(_PEER_IN_FLIGHT, (partial(submit, job) for job in jobs))
    return ids


async def all_run(slurm: Slurm, ids: Sequence[JobId]) -> None:
    async def do_run() -> bool:
        known = await slurm.jobs_state()
        return all(states.is_job_running(known.get(id, frozenset())) for id in ids)

    await until(do_run, timeout_s=PATIENCE_S, what=f"{len(ids)} jobs run")


async def end_all(slurm: Slurm) -> None:
    async def cancel(id: JobId) -> None:
        with contextlib.suppress(AlreadyDone, NotFound):
            await slurm.cancel_job(id)

    async def have_ended() -> bool:
        known = await slurm.jobs_state()
        left = [id for id, state in known.items() if not states.is_job_ended(state)]
        await in_flight(_PEER_IN_FLIGHT, (partial(cancel, id) for id in left))
        return not left and not any(states.is_job_completing(state) for state in known.values())

    await until(have_ended, timeout_s=PATIENCE_S, what="all jobs have ended")
