"""Binding: pods onto the nodes that Slurm gave to their job, if the kubelets would admit them.

What is bound together is bound whole or not at all: no binding is sent before the kubelets would admit all. A binding
is *assumed* from the moment it is sent, because the watch shows it later; one that was not answered is settled with the
apiserver before anything else is decided about its gang.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from weakref import WeakValueDictionary

import msgspec

from sunkpy.core.gang import actions as act
from sunkpy.core.gang.limits import Surroundings, avoid_nodes, without_ending
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.placement.admission import Admission, Verdict, would_kubelet_admit
from sunkpy.kube import errors
from sunkpy.scheduler.cluster import Cluster
from sunkpy.scheduler.entries import Assumption, GangEntry, MemberEntry, assume
from sunkpy.scheduler.fan_out import fan_out
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.notices import Notices

_PATIENCE_S = 30.0

Placed = tuple[Pod, Node]
"""A pod, and the Kubernetes node on which it is to run."""


class Refused(Exception):
    """The kubelet would not have `pod`, or has not had it for too long; the text says why."""

    def __init__(self, pod: Pod, why: str) -> None:
        super().__init__(why)
        self.pod = pod


class Binder:
    """Bindings of one leader; one at a time on a node, so that two pods never count on the same room."""

    def __init__(
        self, *, cluster: Cluster, notices: Notices, metrics: SchedulerMetrics, clock: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._pods = notices.pods
        self._notices = notices
        self._metrics = metrics
        self._clock = clock
        self._one_at_a_time: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def bind(self, entry: GangEntry, action: act.Bind) -> None:
        """Bind all, or wait for pods that are ending on one of the nodes.

        Raises:
            Refused: the nodes have to be given back.
            KubeError: not bound, or not all; decide again.
        """
        placed, sent = [], []
        for binding in action.bindings:
            node = self._cluster.node_behind(binding.slurm_node)
            if node is None:
                raise Refused(binding.pod, f"Slurm node {binding.slurm_node} has no Kubernetes node behind it")
            placed.append((binding.pod, node))
            to = Assumption(
                job=action.job,
                node=node.name,
                slurm_node=binding.slurm_node,
                place=binding.place,
                gpus=binding.gpus,
            )
            sent.append((binding.pod, to))
        async with self._alone_on(node.name for _, node in placed):
            await self._notices.withdraw(pod for pod, _ in placed)
            if await self._are_admitted(entry, placed):
                job = entry.jobs[action.job].view(self._clock())
                # An epilog or a poll was faster otherwise, or another member was refused.
                if job.is_live and not job.is_let_go:
                    await self._send_all(entry, sent)

    async def bind_directly(self, entry: GangEntry, action: act.BindDirectly) -> None:
        """Bind a pod that has no job to its own node.

        Raises:
            Refused: not now; nothing has to be given back.
            KubeError: not bound; decide again.
        """
        node = self._cluster.nodes.get("", action.node)
        if node is None:
            raise Refused(action.pod, f"there is no node {action.node}")
        async with self._alone_on([node.name]):
            await self._notices.withdraw([action.pod])
            if await self._are_admitted(entry, [(action.pod, node)]):
                await self._send_all(entry, [(action.pod, Assumption(job=None, node=node.name, slurm_node=""))])
                self._cluster.occupancy.note(node.name, await self._pods.others_on(node.name))

    @contextlib.asynccontextmanager
    async def _alone_on(self, nodes: Iterable[str]) -> AsyncIterator[None]:
        """Nobody else binds to these nodes meanwhile. Taken in order of name, so that no two gangs wait in a circle."""
        async with contextlib.AsyncExitStack() as stack:
            for node in sorted(set(nodes)):
                await stack.enter_async_context(self._one_at_a_time.setdefault(node, asyncio.Lock()))
            yield

    async def _are_admitted(self, entry: GangEntry, placed: Iterable[Placed]) -> bool:
        """The kubelets would have all of these pods together; False when they would have to wait.

        Raises:
            Refused: one would never be admitted, or has waited too long.
        """
        placed, now = tuple(placed), self._clock()
        turned_away = await self._turned_away(entry, placed, not_older_than=self._cluster.pods.version)
        if turned_away:  # by what may be over: what keeps a pod away must be so now
            turned_away = await self._turned_away(entry, placed)
        for pod, _ in placed:
            member, admission = entry.member(pod), turned_away.get(pod.uid)
            member.waits_since = None if admission is None else member.waits_since or now
        for pod, _ in placed:
            if (admission := turned_away.get(pod.uid)) is not None:
                waits_since = entry.member(pod).waits_since or now
                if admission.verdict is Verdict.REFUSE or now - waits_since > _PATIENCE_S:
                    entry.wait_for_nothing()
                    raise Refused(pod, admission.why)
        return not turned_away

    async def _turned_away(
        self, entry: GangEntry, placed: Sequence[Placed], *, not_older_than: str = ""
    ) -> dict[str, Admission]:
        """The pods, by uid, that cannot be bound now, by what is on their nodes now or was at that version or later."""
        listed: dict[str, tuple[Pod, ...]] = {}
        others: dict[str, list[Pod]] = {}

        async def read(node: str) -> None:
            sent = self._cluster.neighbours.sent_to(node)
            found = await self._pods.others_on(node, not_older_than=not_older_than)
            self._cluster.occupancy.note(node, found)
            known = {pod.uid for pod in found}
            listed[node] = tuple(found)
            others[node] = found + [pod for pod in sent if pod.uid not in known and self._goes_to(pod, node)]

        await fan_out(partial(read, name) for name in {node.name for _, node in placed})
        around = self._cluster.surroundings(listed=listed)
        kept_away = _kept_away(placed, around, but=entry.members) | self._out_of_reach(placed)
        return kept_away | _too_full(placed, others)

    def _out_of_reach(self, placed: Iterable[Placed]) -> dict[str, Admission]:
        """The pods, by uid, that could not have their volumes on their node."""
        found = ((pod, self._cluster.volumes.why_not_on(pod, node)) for pod, node in placed)
        return {pod.uid: Admission(verdict=Verdict.REFUSE, why=why) for pod, why in found if why}

    def _goes_to(self, pod: Pod, node: str) -> bool:
        """The binding that was sent is still under way, or the watch shows it by now."""
        if any(sent.uid == pod.uid for sent in self._cluster.neighbours.sent_to(node)):
            return True
        seen = self._cluster.pods.get(*pod.key)
        return seen is not None and seen.uid == pod.uid and seen.spec.node_name == node

    async def _send_all(self, entry: GangEntry, sent: list[tuple[Pod, Assumption]]) -> None:
        """Every binding, whatever becomes of the others: what was begun is decided anew when all have been answered."""
        was_bound_to = entry.bound_to
        for pod, to in sent:
            entry.member(pod).assumed, entry.bound_to = to, to.job
            self._cluster.neighbours.note_sent(assume(pod, to))
        try:
            await fan_out(partial(self._send, entry, pod, to) for pod, to in sent)
        finally:
            done = [pod for pod, _ in sent if entry.member(pod).assumed is not None]
            entry.is_half_bound |= 0 < len(done) < len(sent)
            if not done:
                entry.bound_to = was_bound_to
            entry.fire()
        await fan_out(partial(self._tell, pod, to) for pod, to in sent)

    async def _send(self, entry: GangEntry, pod: Pod, to: Assumption) -> None:
        member = entry.member(pod)
        try:
            await self._cluster.volumes.choose_node(pod, to.node)
            await self._pods.bind(pod, to)
        except errors.Unavailable:
            raise  # sent, perhaps done: settled at the start of the next pass
        except errors.KubeError as error:
            member.assumed = None
            self._cluster.neighbours.drop_sent(pod.uid)
            self._metrics.binds.labels("failed").inc()
            if isinstance(error, errors.Forbidden | errors.Invalid):
                # Asking again will not help, and meanwhile the job would hold a node for nothing.
                raise Refused(pod, f"the apiserver refuses the binding to node {to.node}: {error.message}") from error
            raise
        member.assumed = msgspec.structs.replace(to, confirmed=True)
        entry.now_under(to.job)
        now, job = self._clock(), entry.jobs.get(to.job) if to.job is not None else None
        self._metrics.binds.labels("ok").inc()
        self._metrics.bind_seconds.observe(now - entry.seen_at)
        if job is not None and job.prologs:
            self._metrics.start_to_bind_seconds.observe(now - min(job.prologs.values()))

    async def _tell(self, pod: Pod, to: Assumption) -> None:
        job = f"Slurm job {to.job} runs on {to.slurm_node}: " if to.job is not None else ""
        await self._pods.tell(pod, reason="Scheduled", action="Binding", note=f"{job}bound to node {to.node}")

    async def settle(self, entry: GangEntry) -> None:
        """Ask what became of bindings without an answer; drop assumptions that the watch has confirmed."""
        assumed = [(uid, member) for uid, member in entry.members.items() if member.assumed is not None]
        was_never_done = [await self._is_never_done(entry, uid, member) for uid, member in assumed]
        if any(was_never_done):
            entry.is_half_bound = self._has_bound_member(entry)
            entry.bound_to = entry.bound_to if entry.is_half_bound else None

    async def _is_never_done(self, entry: GangEntry, uid: str, member: MemberEntry) -> bool:
        assumed = member.assumed
        pod = self._cluster.pods.get(*member.key)
        if assumed is None or pod is None or pod.uid != uid or pod.spec.node_name:
            member.assumed = None
            self._cluster.neighbours.drop_sent(uid)  # one that went before its binding was sent, no watch tells of
        elif not assumed.confirmed:
            found = await self._pods.read(member.key, uid)
            is_bound = found is not None and bool(found.spec.node_name)
            member.assumed = msgspec.structs.replace(assumed, confirmed=True) if is_bound else None
            if not is_bound:
                self._cluster.neighbours.drop_sent(uid)
            entry.bound_to = assumed.job if is_bound else entry.bound_to
            return not is_bound
        return False

    def _has_bound_member(self, entry: GangEntry) -> bool:
        pods = [(member, self._cluster.pods.get(*member.key)) for member in entry.members.values()]
        return any(member.assumed is not None or (pod is not None and pod.spec.node_name) for member, pod in pods)


def _kept_away(placed: Sequence[Placed], around: Surroundings, *, but: Container[str]) -> dict[str, Admission]:
    """The pods, by uid, that others keep away from their node; one that only ending pods do may wait."""
    pods = [pod for pod, _ in placed]
    avoided = avoid_nodes(pods, around, but=but)
    stays = avoid_nodes(pods, without_ending(around), but=but) if avoided else {}
    return {
        pod.uid: Admission(
            verdict=Verdict.REFUSE if node.name in stays else Verdict.WAIT,
            why=f"node {node.name} must be avoided: {avoided[node.name]}",
        )
        for pod, node in placed
        if node.name in avoided
    }


def _too_full(placed: Iterable[Placed], others: Mapping[str, list[Pod]]) -> dict[str, Admission]:
    """The pods, by uid, that a kubelet would not have now; those of one node are counted together."""
    found: dict[str, Admission] = {}
    for pod, node in placed:
        admission = would_kubelet_admit(pod, node, others[node.name])
        if admission.verdict is not Verdict.ADMIT:
            found[pod.uid] = admission
        others[node.name].append(pod)
    return found
