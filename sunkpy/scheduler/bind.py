"""Binding: a pod onto the node that Slurm gave to its job, if the kubelet would admit it there.

A binding is *assumed* from the moment it is sent, because the watch shows it later; one that was not answered is
settled with the apiserver before anything else is decided about its gang.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

import msgspec

from sunkpy.core.gang import actions as act
from sunkpy.core.placement.admission import Verdict, would_kubelet_admit
from sunkpy.kube import errors
from sunkpy.scheduler.cluster import Cluster
from sunkpy.scheduler.entries import Assumption, GangEntry, MemberEntry
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.pod_writer import PodWriter

_PATIENCE_S = 30.0


class Refused(Exception):
    """The kubelet would not have the pod, or has not had it for too long; the text says why."""


class Binder:
    """Bindings of one leader; one at a time on a node, so that two pods never count on the same room."""

    def __init__(
        self, *, cluster: Cluster, pods: PodWriter, metrics: SchedulerMetrics, clock: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._pods = pods
        self._metrics = metrics
        self._clock = clock
        self._one_at_a_time: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def bind(self, entry: GangEntry, action: act.Bind) -> None:
        """Bind, or wait for pods that are ending on the node.

        Raises:
            Refused: the node has to be given back.
            KubeError: not bound; decide again.
        """
        node = self._cluster.node_behind(action.slurm_node)
        if node is None:
            raise Refused(f"Slurm node {action.slurm_node} has no Kubernetes node behind it")
        member = entry.member(action.pod)
        async with self._one_at_a_time[node.name]:
            others = await self._pods.others_on(node.name)
            self._cluster.occupancy.note(node.name, others)
            admission = would_kubelet_admit(action.pod, node, others)
            if admission.verdict is Verdict.ADMIT:
                member.waits_since = None
                await self._send(entry, action, node.name)
                return
        now = self._clock()
        member.waits_since = member.waits_since or now
        if admission.verdict is Verdict.REFUSE or now - member.waits_since > _PATIENCE_S:
            member.waits_since = None
            raise Refused(admission.why)

    async def _send(self, entry: GangEntry, action: act.Bind, node: str) -> None:
        job, member = entry.jobs[action.job], entry.member(action.pod)
        known = job.view(self._clock())
        if not known.is_live or known.is_cancelled:
            return  # an epilog or a poll was faster, or another member was refused
        was_bound_to = entry.bound_to
        assumed = Assumption(job=action.job, node=node, slurm_node=action.slurm_node)
        member.assumed, entry.bound_to = assumed, action.job
        try:
            await self._pods.bind(action.pod, assumed)
        except errors.Unavailable:
            raise  # sent, perhaps done: settled at the start of the next pass
        except errors.KubeError as error:
            member.assumed, entry.bound_to = None, was_bound_to
            self._metrics.binds.labels("failed").inc()
            if isinstance(error, errors.Forbidden | errors.Invalid):
                # Asking again will not help, and meanwhile the job would hold a node for nothing.
                raise Refused(f"the apiserver refuses the binding to node {node}: {error.message}") from error
            raise
        member.assumed = msgspec.structs.replace(assumed, confirmed=True)
        entry.now_under(action.job)
        entry.fire()
        now = self._clock()
        self._metrics.binds.labels("ok").inc()
        self._metrics.bind_seconds.observe(now - entry.seen_at)
        if job.prologs:
            self._metrics.start_to_bind_seconds.observe(now - min(job.prologs.values()))
        note = f"Slurm job {action.job} runs on {action.slurm_node}: bound to node {node}"
        await self._pods.tell(action.pod, reason="Scheduled", action="Binding", note=note)

    async def settle(self, entry: GangEntry) -> None:
        """Ask what became of bindings without an answer; drop assumptions that the watch has confirmed."""
        for uid, member in tuple(entry.members.items()):
            if member.assumed is not None:
                await self._settle(entry, uid, member)

    async def _settle(self, entry: GangEntry, uid: str, member: MemberEntry) -> None:
        assumed = member.assumed
        pod = self._cluster.pods.get(*member.key)
        if assumed is None or pod is None or pod.uid != uid or pod.spec.node_name:
            member.assumed = None
        elif not assumed.confirmed:
            found = await self._pods.read(member.key, uid)
            is_bound = found is not None and bool(found.spec.node_name)
            member.assumed = msgspec.structs.replace(assumed, confirmed=True) if is_bound else None
            if is_bound:
                entry.bound_to = assumed.job
            elif not self._has_bound_member(entry):
                entry.bound_to = None

    def _has_bound_member(self, entry: GangEntry) -> bool:
        pods = [(member, self._cluster.pods.get(*member.key)) for member in entry.members.values()]
        return any(member.assumed is not None or (pod is not None and pod.spec.node_name) for member, pod in pods)
