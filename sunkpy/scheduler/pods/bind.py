"""Binds pods to the nodes that Slurm gave to their job, if the kubelets there would admit them.

This is done when the scheduler decides about a gang and Slurm shows that the gang's job runs (`core.gang.decide.bound`,
`queued`). The bindings of pods that are to be bound together are sent only when the kubelets would admit all of these
pods. A pod counts as bound as soon as its binding is sent, because the watch shows the binding later. If the apiserver
did not answer, the pod is read again before the next decision about its gang.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence, Set
from functools import partial
from weakref import WeakValueDictionary

from msgspec.structs import replace

from sunkpy.core.gang import actions as act
from sunkpy.core.gang.limits import Surroundings, avoid_nodes
from sunkpy.core.model.concerns import has_claimed_volumes, may_want_devices
from sunkpy.core.model.objects import LabelSelector, Node, Pod
from sunkpy.core.placement.admission import Admission, Verdict, why_node_refuses, would_kubelet_admit
from sunkpy.kube import errors
from sunkpy.runtime.fan_out import fan_out
from sunkpy.scheduler.devices.allocate import Allocator, DevicePlan
from sunkpy.scheduler.devices.made import Refused
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.nodes.cluster import Cluster
from sunkpy.scheduler.outbox import Outbox
from sunkpy.scheduler.record import GangRecord, MemberRecord, SentBinding

Placed = tuple[Pod, Node]
"""A pod, and the Kubernetes node on which it is to run."""


class _Locks:
    """A lock for each node, which lets only one binding to the node happen at a time."""

    def __init__(self) -> None:
        self._of_node: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def hold(self, nodes: Iterable[str]) -> AsyncIterator[None]:
        """Hold the locks of these nodes while the body of the `async with` statement runs; other bindings to these
        nodes wait. The locks are taken in the order of the nodes' names, so two gangs cannot wait for each other.
        """
        async with contextlib.AsyncExitStack() as stack:
            for node in sorted(set(nodes)):
                await stack.enter_async_context(self._of_node.setdefault(node, asyncio.Lock()))
            yield


class Binder:
    """Binds pods to nodes; each leader has its own binder. Only one gang at a time is bound to a node, so that two
    gangs do not count on the same free resources.
    """

    def __init__(self, leader: Leader, cluster: Cluster, allocator: Allocator, outbox: Outbox) -> None:
        self._leader = leader
        self._times = leader.settings.times
        self._cluster = cluster
        self._allocator = allocator
        self._outbox = outbox
        self._locks = _Locks()

    async def bind(self, record: GangRecord, action: act.Bind) -> None:
        """Bind all pods of the action to the nodes of their job. If one of them has to wait, for a volume or until
        other pods on its node have ended, none is bound.

        Raises:
            Refused: a kubelet, a volume provisioner or the apiserver would not accept a pod.
            KubeError, SlurmError: not all pods were bound; decide about the gang again.
        """
        placed = []
        for binding in action.bindings:
            node = self._cluster.node_behind(binding.note.slurm_node)
            if node is None:
                raise Refused(binding.pod, f"there is no Kubernetes node for Slurm node {binding.note.slurm_node}")
            placed.append((binding.pod, node))
        try:
            async with self._locks.hold(node.name for _, node in placed):
                await self._bind_placed(record, action, placed)
        except Refused as refused:
            refused.node = next(node.name for pod, node in placed if pod.uid == refused.pod.uid)
            raise

    async def _bind_placed(self, record: GangRecord, action: act.Bind, placed: Sequence[Placed]) -> None:
        if self._wait_for_volumes(record, placed):
            return
        await self._outbox.withdraw(pod for pod, _ in placed)
        has_devices = any(may_want_devices(pod.spec) for pod, _ in placed)
        plan = await self._allocator.plan(action, placed) if has_devices else DevicePlan()
        if not await self._are_admitted(record, placed, plan.obstacles) or await self._ask_for_volumes(record, placed):
            return
        if has_devices:
            await self._allocator.write(plan)
        job = record.jobs[action.job]
        # The job may have ended meanwhile, or been cancelled because another member was refused.
        if job.is_live and not job.is_let_go:
            await self._send_all(record, _to_send(action, placed, plan))

    async def bind_directly(self, record: GangRecord, action: act.BindDirectly) -> None:
        """Bind a pod that is bound without a Slurm job, such as a DaemonSet's, to the node that the pod itself names.
        Nothing is bound yet if the pod has to wait for a volume or for other pods on the node.

        Raises:
            Refused: the pod cannot be bound to its node now.
            KubeError: the pod was not bound; decide about it again.
        """
        node = self._cluster.nodes.get("", action.node)
        if node is None:
            raise Refused(action.pod, f"there is no node {action.node}")
        placed = [(action.pod, node)]
        async with self._locks.hold([node.name]):
            if self._wait_for_volumes(record, placed):
                return
            await self._outbox.withdraw([action.pod])
            if await self._are_admitted(record, placed, {}) and not await self._ask_for_volumes(record, placed):
                await self._send_all(record, [SentBinding.of(action.pod, node=node.name)])

    def _wait_for_volumes(self, record: GangRecord, placed: Sequence[Placed]) -> bool:
        """Return True if a volume is still being made for one of these pods. The pod's condition then says so.

        Raises:
            Refused: a volume cannot be made on the pod's node, or was not made in time.
        """
        now, patience_s = self._leader.clock(), self._times.volume_patience_s
        waits = False
        for pod, node in _with_volumes(placed):
            member, why = record.member(pod), self._cluster.volumes.under_way(pod)
            member.volume_since = (member.volume_since or now) if why else None
            if refusal := self._cluster.volumes.take_refusal(pod, node.name):
                raise Refused(pod, refusal)
            if member.volume_since is not None and now - member.volume_since > patience_s:
                raise Refused(pod, f"{why}, and was not made within {patience_s:.0f} s")
            if why:
                waits = True
                self._outbox.report(record, act.Report(pod=pod, message=why, cause=act.WaitCause.VOLUME))
        return waits

    async def _ask_for_volumes(self, record: GangRecord, placed: Sequence[Placed]) -> bool:
        """Write the pods' nodes on their claims, so that provisioners make the volumes there. Return True if a volume
        has to be waited for. If several pods share a claim, the node of the first of them is written.

        Raises:
            Refused: the apiserver refuses a write.
            KubeError: not all claims were written; decide about the gang again.
        """
        is_asked = False
        for pod, node in _with_volumes(placed):
            try:
                is_asked |= await self._cluster.volumes.choose_node(pod, node.name)
            except (errors.Forbidden, errors.Invalid) as error:
                raise Refused(pod, f"the apiserver refuses node {node.name} for its claims: {error.message}") from error
        return is_asked and self._wait_for_volumes(record, placed)

    async def _are_admitted(
        self, record: GangRecord, placed: Iterable[Placed], without_devices: Mapping[str, Admission]
    ) -> bool:
        """True if the kubelets would admit all of these pods together; False if a pod has to wait. `without_devices`:
        the pods that cannot have their devices now, by uid, each with the reason.

        Raises:
            Refused: a kubelet would never admit one of the pods, or the pod has waited too long.
        """
        placed, now = tuple(placed), self._leader.clock()
        obstacles = _unwanted(placed)  # this needs no list of the pods on the nodes
        if not obstacles:
            obstacles = await self._in_the_way(record, placed)
        obstacles = {**without_devices, **obstacles}
        for pod, _ in placed:
            member, admission = record.member(pod), obstacles.get(pod.uid)
            if admission is not None and admission.reason and member.waits_since is None:
                self._leader.metrics.device_refusals.labels(admission.reason).inc()
            member.waits_since = None if admission is None else member.waits_since or now
        for pod, _ in placed:
            if (admission := obstacles.get(pod.uid)) is not None:
                waits_since = record.member(pod).waits_since or now
                if admission.verdict is Verdict.REFUSE or now - waits_since > self._times.admission_patience_s:
                    record.wait_for_nothing()
                    raise Refused(pod, admission.why, is_of_others=admission.is_of_others)
        return not obstacles

    async def _in_the_way(self, record: GangRecord, placed: Sequence[Placed]) -> dict[str, Admission]:
        """Return which of these pods, by uid, cannot be bound to their nodes because of other pods there or around, or
        because of their volumes, each with the reason.

        While all watches are connected, they show the other pods; if they are not, the apiserver is asked. If a pod
        cannot be bound, the apiserver is asked (again) before that counts, because the other pod may be gone by now.
        """
        nodes = sorted({node.name for _, node in placed})
        if self._cluster.are_pods_known():
            there = {node: self._cluster.neighbours.on(node) for node in nodes}
            obstacles = self._obstacles(record, placed, there, surroundings=self._cluster.surroundings())
        else:
            obstacles = await self._obstacles_listed(record, placed, not_older_than=self._cluster.pods.version)
        return await self._obstacles_listed(record, placed) if obstacles else {}

    async def _obstacles_listed(
        self, record: GangRecord, placed: Sequence[Placed], *, not_older_than: str = ""
    ) -> dict[str, Admission]:
        """Return which of these pods, by uid, cannot be bound because of other pods or their volumes, each with the
        reason. The pods on the nodes are listed from the apiserver: as it has them now, or at the resourceVersion
        `not_older_than` or later.
        """
        listed: dict[str, tuple[Pod, ...]] = {}
        others: dict[str, list[Pod]] = {}

        async def read(node: str) -> None:
            sent = self._cluster.neighbours.sent_to(node)
            found = await self._leader.pods.others_on(node, not_older_than=not_older_than)
            known = {pod.uid for pod in found}
            listed[node] = tuple(found)
            counted = [self._cluster.as_counted(pod) for pod in found]
            others[node] = counted + [pod for pod in sent if pod.uid not in known and self._is_going_to(pod, node)]

        await fan_out(partial(read, name) for name in {node.name for _, node in placed})
        return self._obstacles(record, placed, others, surroundings=self._cluster.surroundings(listed=listed))

    def _obstacles(
        self,
        record: GangRecord,
        placed: Sequence[Placed],
        others: Mapping[str, list[Pod]],
        *,
        surroundings: Surroundings,
    ) -> dict[str, Admission]:
        """Return which of these pods, by uid, cannot be bound to their nodes, each with the reason: because of other
        pods on the nodes (`others`, by node) or around them (`surroundings`), or because a volume cannot be reached.
        """
        in_conflict = _in_conflict(placed, surroundings, but=record.members.keys()) | self._without_volumes(placed)
        return in_conflict | _too_full(placed, others)

    def _without_volumes(self, placed: Iterable[Placed]) -> dict[str, Admission]:
        """Return which of these pods, by uid, cannot reach their volumes from the node where they are to be bound, each
        with the reason.
        """
        found = ((pod, self._cluster.volumes.why_not_on(pod, node)) for pod, node in _with_volumes(placed))
        return {pod.uid: Admission(verdict=Verdict.REFUSE, why=why) for pod, why in found if why}

    def _is_going_to(self, pod: Pod, node: str) -> bool:
        """True if a binding of the pod to the node was sent, or the watch already shows the pod there."""
        if any(sent.uid == pod.uid for sent in self._cluster.neighbours.sent_to(node)):
            return True
        seen = self._cluster.pods.get(*pod.key)
        return seen is not None and seen.uid == pod.uid and seen.spec.node_name == node

    async def _send_all(self, record: GangRecord, bindings: Sequence[SentBinding]) -> None:
        """Send all these bindings, also if one of them fails. The function returns only when every one has been
        answered or has failed.
        """
        was_bound_to = record.bound_to
        record.assume(bindings)
        for each in bindings:
            record.bound_to = each.job
            self._cluster.neighbours.note_sent(each.pod)
        try:
            await fan_out(partial(self._send, record, each) for each in bindings)
        finally:
            done = [each for each in bindings if record.member(each.pod).assumed is not None]
            record.is_half_bound |= 0 < len(done) < len(bindings)
            if not done:
                record.bound_to = was_bound_to
            record.fire()
        await fan_out(partial(self._announce, each) for each in bindings)

    async def _send(self, record: GangRecord, sent: SentBinding) -> None:
        pod, node = sent.pod, sent.pod.spec.node_name
        try:
            await self._leader.pods.bind(sent)
        except errors.Unavailable:
            raise  # the pod may be bound: the next pass begins with `settle`
        except errors.KubeError as error:
            record.assume_no_more(pod)
            self._cluster.neighbours.drop_sent(pod.uid)
            self._leader.metrics.binds.labels("failed").inc()
            if isinstance(error, errors.Forbidden | errors.Invalid):
                # Asking again will not help, and meanwhile the job would hold a node for nothing.
                raise Refused(pod, f"the apiserver refuses the binding to node {node}: {error.message}") from error
            raise
        record.member(pod).assumed = replace(sent, confirmed=True)
        record.now_under(sent.job)
        self._leader.metrics.binds.labels("ok").inc()
        self._leader.metrics.bind_seconds.observe(self._leader.clock() - record.seen_at)

    async def _announce(self, sent: SentBinding) -> None:
        job = f"Slurm job {sent.note.job} runs on {sent.note.slurm_node}: " if sent.note is not None else ""
        note = f"{job}bound to node {sent.pod.spec.node_name}"
        await self._outbox.inform(sent.pod, reason="Scheduled", action="Binding", note=note)

    async def settle(self, record: GangRecord) -> None:
        """Find out what became of the gang's bindings whose request got no answer, by reading the pods. Bindings that
        the watch shows by now are no longer counted as sent.
        """
        assumed = [(uid, member) for uid, member in record.members.items() if member.assumed is not None]
        were_not_bound = [await self._was_not_bound(record, uid, member) for uid, member in assumed]
        if any(were_not_bound):
            record.is_half_bound = self._has_bound_member(record)
            record.bound_to = record.bound_to if record.is_half_bound else None

    async def _was_not_bound(self, record: GangRecord, uid: str, member: MemberRecord) -> bool:
        assumed = member.assumed
        pod = self._cluster.pods.get(*member.key)
        if assumed is None or pod is None or pod.uid != uid or pod.spec.node_name:
            member.assumed = None
            self._cluster.neighbours.drop_sent(uid)  # no watch shows a pod that went before its binding was sent
        elif not assumed.confirmed:
            found = await self._leader.pods.read(member.key, uid)
            is_bound = found is not None and bool(found.spec.node_name)
            member.assumed = replace(assumed, confirmed=True)
            if not is_bound:
                record.assume_no_more(assumed.pod)
                self._cluster.neighbours.drop_sent(uid)
            record.bound_to = assumed.job if is_bound else record.bound_to
            return not is_bound
        return False

    def _has_bound_member(self, record: GangRecord) -> bool:
        pods = [(member, self._cluster.pods.get(*member.key)) for member in record.members.values()]
        return any(member.assumed is not None or (pod is not None and pod.spec.node_name) for member, pod in pods)


def _with_volumes(placed: Iterable[Placed]) -> list[Placed]:
    """Return those of these pods that have volumes with claims, each with its node."""
    return [(pod, node) for pod, node in placed if has_claimed_volumes(pod.spec)]


def _to_send(action: act.Bind, placed: Sequence[Placed], plan: DevicePlan) -> list[SentBinding]:
    """Return the bindings to send. Each has the annotations that name the pod's gang and job, and the devices that its
    claims or the device plugin give it.
    """
    notes = (replace(each.note, claimed=plan.notes.get(each.pod.uid, "")) for each in action.bindings)
    return [SentBinding.of(pod, node=node.name, note=note) for (pod, node), note in zip(placed, notes, strict=True)]


def _in_conflict(placed: Sequence[Placed], around: Surroundings, *, but: Set[str]) -> dict[str, Admission]:
    """Return which of these pods, by uid, may not be on their node because of affinity rules or host ports, each with
    the reason. If only pods that are ending are in the way, the pod may wait for their end; if not, it is refused. Pods
    with a uid in `but` are not in the way.
    """
    pods = [pod for pod, _ in placed]
    avoided = avoid_nodes(pods, around, but=but)
    ending = {pod.uid for pod in around.meant(LabelSelector(), None) if pod.is_deleting} if avoided else set[str]()
    stays = avoid_nodes(pods, around, but=ending | but) if avoided else {}
    return {
        pod.uid: Admission(
            verdict=Verdict.REFUSE if node.name in stays else Verdict.WAIT,
            why=f"node {node.name} must be avoided: {avoided[node.name]}",
            is_of_others=True,
        )
        for pod, node in placed
        if node.name in avoided
    }


def _unwanted(placed: Iterable[Placed]) -> dict[str, Admission]:
    """Return which of these pods, by uid, the node itself refuses, for example by a taint, each with the reason."""
    found = ((pod, why_node_refuses(pod, node)) for pod, node in placed)
    return {pod.uid: Admission(verdict=Verdict.REFUSE, why=why) for pod, why in found if why}


def _too_full(placed: Iterable[Placed], others: Mapping[str, list[Pod]]) -> dict[str, Admission]:
    """Return which of these pods, by uid, the kubelet of their node would not admit now, each with the reason.
    `others`: the pods that are already on each node. Of these pods, those for the same node are counted together.
    """
    found: dict[str, Admission] = {}
    for pod, node in placed:
        admission = would_kubelet_admit(pod, node, others[node.name])
        if admission.verdict is not Verdict.ADMIT:
            found[pod.uid] = admission
        others[node.name].append(pod)
    return found
