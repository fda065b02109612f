"""0 → 20 → 0 nodes with the real Cluster Autoscaler: for jobs of several nodes, gangs and single pods, all at once.

etcd, apiserver, Cluster Autoscaler, Slurm, operator, syncer and scheduler are real; `tests.bench.growth.ground`
simulates the machines. The syncer's records of possible nodes reach slurmctld after a second; on a cluster the kubelet
takes a minute. No Prolog reports that jobs start, so the scheduler polls more often. The NodeSet and the autoscaler may
have more nodes than the jobs need, so a node that is asked for twice is also bought twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Final

import click
import msgspec

from sunkpy.core.model.states import JobId, is_job_running
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.slurm import NodesSnapshot, Slurm
from sunkpy.slurm.errors import SlurmError
from tests.bench import report, simulated
from tests.bench.asked import Asked
from tests.bench.burst.load import Pods, Wave
from tests.bench.ground import PATIENCE_S, ControlPlane, RunningSlurm, beside, bring, control_plane
from tests.bench.growth import ground
from tests.bench.growth.ground import NODESET, Simulated
from tests.bench.ours import as_admin, running, scheduler_settings, syncer_settings
from tests.bench.simulated import NAMESPACE
from tests.integration.cluster_autoscaler import PROGRAM, autoscale
from tests.integration.slurm import kept_potential
from tests.integration.slurm.asking import connect
from tests.integration.slurm.daemons import RealSlurm
from tests.polling import until

_STARTS_S: Final = 2.0
"""The most seconds from the registration of a job's last node to the job's start."""
_SUBMITTED_S: Final = 5.0
"""The same for pods that fitted no node before: their job is submitted only then."""
_LOOK_S: Final = 0.1
_TURN_S: Final = 0.2
_RECORDS: Final = "bench-potential"
_NODESETS: Final = paths.nodesets(NAMESPACE)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What needs nodes. `jobs`: the number of nodes of each sbatch job. `gang`: the pods of a gang, one on each node.
    `singles`: pods that each fill a node. `halves`: pods of which two share a node.
    """

    jobs: tuple[int, ...] = (8, 3)
    gang: int = 4
    singles: int = 3
    halves: int = 4

    @property
    def nodes(self) -> int:
        return sum(self.jobs) + self.gang + self.singles + self.halves // 2


QUICK: Final = Plan(jobs=(2,), gang=2, singles=1, halves=2)
ASKS: Final = ("placeholders", "capacityBuffer")


def measure(asked: Asked) -> list[report.Figure]:
    """Measure each way to ask for nodes, one after another; a quick run only the first."""
    if not PROGRAM:
        raise click.ClickException(
            "this bench needs a Cluster Autoscaler with the provider kwok: its path in SUNKPY_CLUSTER_AUTOSCALER"
        )
    with control_plane("growth") as plane:
        return asyncio.run(_measure(plane, QUICK if asked.quick else Plan(), ASKS[:1] if asked.quick else ASKS))


async def _measure(plane: ControlPlane, plan: Plan, asks: Sequence[str]) -> list[report.Figure]:
    async with await Kube.connect(plane.admin) as kube:
        await simulated.make_namespace(kube)
        await simulated.make_nodesets_known(kube)
        await kube.create(f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": _RECORDS}})
        await asyncio.to_thread(autoscale, plane, most=2 * plan.nodes)
        slurm = await asyncio.to_thread(ground.start_slurm, plane)
        try:
            put = partial(_put, slurm.real)
            async with _sunkpy(plane, slurm), beside(bring(kube, NAMESPACE, _RECORDS, put)):
                return await _Bench(plane, kube, slurm, plan).run(asks)
        finally:
            await slurm.slurm.close()
            await asyncio.to_thread(slurm.real.stop)


@contextlib.asynccontextmanager
async def _sunkpy(plane: ControlPlane, slurm: RunningSlurm) -> AsyncIterator[None]:
    folder = plane.folder / "sunkpy"
    figures = {"metrics": {"seconds": 10.0}, "potentialConfigMap": _RECORDS}
    grows = {"growingPartitions": ["low", "high"], "pollSeconds": 0.2}
    async with (
        running("operator", folder, plane.admin, {}),
        running("syncer", folder, plane.admin, {**syncer_settings(slurm.settings), **figures}),
        running("scheduler", folder, plane.admin, {**scheduler_settings(slurm.settings), **grows}),
    ):
        yield


def _put(real: RealSlurm, key: str, text: str) -> None:
    """Give slurmctld the syncer's records of possible nodes."""
    if key == "records":
        kept_potential.bring(real, text)


class Seen:
    """What the bench has seen in Slurm, in monotonic seconds: when each node first registered, when each job first
    appeared, and when it first ran. `states`: the jobs' states now.
    """

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm
        self.registered_s: dict[str, float] = {}
        self.known_s: dict[JobId, float] = {}
        self.started_s: dict[JobId, float] = {}
        self.states: Mapping[JobId, frozenset[str]] = {}

    async def look(self) -> None:
        while True:
            with contextlib.suppress(SlurmError):
                answer = await self._slurm.nodes()
                assert isinstance(answer, NodesSnapshot)
                now_s = time.monotonic()
                for name, node in answer.nodes.items():
                    if node.slurmd_since_s:
                        self.registered_s.setdefault(name, now_s)
                self.states = await self._slurm.jobs_state()
                now_s = time.monotonic()
                for job, state in self.states.items():
                    self.known_s.setdefault(job, now_s)
                    if is_job_running(state):
                        self.started_s.setdefault(job, now_s)
            await asyncio.sleep(_LOOK_S)


class _Bench:
    """One cluster, which grows and shrinks once for each way to ask for nodes."""

    def __init__(self, plane: ControlPlane, kube: Kube, slurm: RunningSlurm, plan: Plan) -> None:
        self._kube = kube
        self._slurm = slurm
        self._plan = plan
        self._machines = Simulated(plane, slurm.real)
        self._admin = connect(slurm.real, as_admin(slurm.settings).user)
        self._seen = Seen(self._admin)
        self._pods = Pods(kube)

    async def run(self, asks: Sequence[str]) -> list[report.Figure]:
        await self._kube.create(_NODESETS, ground.nodeset(asks[0], potential=2 * self._plan.nodes))
        figures: list[report.Figure] = []
        try:
            async with self._pods.watched(), beside(self._move(), self._seen.look()):
                for ask in asks:
                    await self._kube.patch(paths.nodeset(NAMESPACE, NODESET), {"spec": {"growth": {"ask": ask}}})
                    figures += await self._up_and_down(ask)
        finally:
            await self._admin.close()
        return figures

    async def _move(self) -> None:
        while True:
            await asyncio.to_thread(self._machines.turn)
            await asyncio.sleep(_TURN_S)

    async def _up_and_down(self, ask: str) -> list[report.Figure]:
        plan, machines, before = self._plan, self._machines, len(self._machines.bought)
        machines.most = 0
        await until(self._has_records, timeout_s=PATIENCE_S, what="slurmctld has records of all nodes that could be")
        waves = make_waves(ask, plan)
        pods = [name for wave in waves for name in wave.names]
        began_s = time.monotonic()
        jobs = [await asyncio.to_thread(self._submit, ask, nodes) for nodes in plan.jobs]
        for wave in waves:
            await self._pods.create(wave.bodies)
        await self._pods.until_bound(pods)
        await self._until(lambda: all(job in self._seen.started_s for job in jobs), "all jobs run")
        all_jobs = {*jobs, *(self._pods.node_and_job_of(pod)[1] for pod in pods)}
        await self._until(lambda: all_jobs <= self._seen.known_s.keys(), "all jobs of pods are seen")
        up_s = time.monotonic() - began_s
        first_s = min(at_s for job, at_s in self._seen.started_s.items() if job in all_jobs) - began_s
        after_job_s = [await self._job_waited_s(job) for job in jobs]
        after_pods = [self._pods_waited(group) for wave in waves for group in groups_of(wave)]
        self._end(ask, plan.jobs[0])
        machines.ending |= {*waves[0].names}
        kept = {name for job in jobs[1:] for name in (await self._admin.job(job)).nodes}
        kept |= {self._slurm_node(pod) for wave in waves[1:] for pod in wave.names}
        await self._until(lambda: machines.slurmds == kept, f"only busy nodes are left, {sorted(kept)}")
        await asyncio.sleep(1.5 * ground.RELEASE_AFTER_S)
        lost = [f"{name} had a job" for name in kept if name not in machines.slurmds]
        for nodes in plan.jobs[1:]:
            self._end(ask, nodes)
        machines.ending |= {*pods}
        ended_s = time.monotonic()
        await self._until(lambda: not machines.slurmds and not machines.there, "no node is left")
        down_s = time.monotonic() - ended_s
        lost += [f"job {job} is {'+'.join(sorted(self._seen.states[job]))}" for job in jobs if not self._is_done(job)]
        lost += [f"pod {pod} has not succeeded" for pod in pods if not self._has_succeeded(pod)]
        await self._pods.remove(ask.lower())
        bought, wanted = len(machines.bought) - before, plan.nodes
        twice = [*machines.bought][before + wanted :]
        what = f"{wanted} nodes by {ask}"
        return [
            report.none(f"{what}: bought beyond what is wanted", twice, n=bought),
            report.none(f"{what}: busy nodes, jobs and pods lost", lost, n=wanted + len(jobs) + len(pods)),
            report.at_most(
                f"{what}: from the last registration to the start of a job, longest", max(after_job_s),
                bound=_STARTS_S, n=len(after_job_s),
            ),
            *bindings(what, after_pods),
            report.observed(f"{what}: from none until the first job runs", first_s),
            report.observed(f"{what}: until all run", up_s),
            report.observed(f"{what}: most there at once", machines.most, unit=""),
            report.observed(f"{what}: from the end of the last job until none is left", down_s),
        ]  # fmt: skip

    async def _until(self, is_so: Callable[[], bool], what: str) -> None:
        async def check() -> bool:
            return is_so()

        await until(check, timeout_s=PATIENCE_S, what=what)

    async def _has_records(self) -> bool:
        """True if slurmctld has records of all possible nodes: 24.11 refuses jobs for more nodes than it knows."""
        asked = ("sinfo", "--future", "--states=future", "--noheader", "--Node", "--format=%N")
        _, said = await asyncio.to_thread(self._slurm.real.run_as, "slurm", *asked)
        return len({*said.split()}) == 2 * self._plan.nodes

    def _submit(self, ask: str, nodes: int) -> JobId:
        """Submit a job of `nodes` whole nodes, which runs until `_end`."""
        runs = f"until [ -e /var/tmp/end-{ask}-{nodes} ]; do sleep 0.5; done"
        options = ("--parsable", "--chdir=/", "--output=/dev/null", "--no-requeue", "--exclusive", "--mem=100")
        code, said = self._slurm.real.run_as("slurm", "sbatch", *options, f"--nodes={nodes}", "--wrap", runs)
        if code:
            raise RuntimeError(f"sbatch --nodes={nodes}: {said}")
        return JobId(int(said))

    def _end(self, ask: str, nodes: int) -> None:
        (self._slurm.real.root / f"var/tmp/end-{ask}-{nodes}").touch()

    async def _job_waited_s(self, job: JobId) -> float:
        nodes = (await self._admin.job(job)).nodes
        return self._seen.started_s[job] - max(self._seen.registered_s[node] for node in nodes)

    def _is_done(self, job: JobId) -> bool:
        return "COMPLETED" in self._seen.states.get(job, frozenset())

    def _slurm_node(self, pod: str) -> str:
        found = self._pods.get(pod)
        assert found is not None
        return next(slurm for slurm, node in self._machines.node_of.items() if node == found.spec.node_name)

    def _pods_waited(self, pods: Sequence[str]) -> tuple[bool, float]:
        """Return whether these pods had a job when their last node registered, and the seconds until all were bound."""
        last_s = max(self._seen.registered_s[self._slurm_node(pod)] for pod in pods)
        _, job = self._pods.node_and_job_of(pods[0])
        return self._seen.known_s[job] < last_s, max(self._pods.bound_s[pod] for pod in pods) - last_s

    def _has_succeeded(self, pod: str) -> bool:
        found = self._pods.get(pod)
        return found is not None and found.status.phase == "Succeeded"


def make_waves(name: str, plan: Plan) -> list[Wave]:
    """Return a gang, single pods and pods that share nodes: a node fits two of the last kind, or one of the others."""
    name = name.lower()
    return [
        Wave(name=f"{name}-gang", count=plan.gang, gang=plan.gang, cpus=6),
        Wave(name=f"{name}-single", count=plan.singles, cpus=6),
        Wave(name=f"{name}-half", count=plan.halves, cpus=3),
    ]


def groups_of(wave: Wave) -> list[list[str]]:
    """Return the names of pods in groups that are bound together."""
    return [wave.names[at : at + wave.gang] for at in range(0, wave.count, wave.gang)]


def bindings(what: str, waited: Sequence[tuple[bool, float]]) -> list[report.Figure]:
    """Return figures of pods whose job waited for a node, and of pods whose job came only once a node was there."""
    kinds = ((True, "whose job waited", _STARTS_S), (False, "that fitted no node before", _SUBMITTED_S))
    return [
        report.at_most(
            f"{what}: from the last registration to the binding of pods {which}, longest", max(took_s), bound=bound,
            n=len(took_s),
        )
        for has_job, which, bound in kinds
        if (took_s := [took_s for had_job, took_s in waited if had_job is has_job])
    ]  # fmt: skip
