"""Allocates devices to the ResourceClaims of pods before the pods are bound: for all pods that are bound together, or
for none.

The order of writes is that of kube-scheduler: first a finalizer, so that the claim cannot be deleted while its pod
lives, then allocation and reservation in one write that is guarded by the claim's resourceVersion. When the pod has
ended, Kubernetes' own controller frees the devices. The scheduler frees them only if a pod was not bound after all, or
if a claim still has devices for another node.

If a pod was deleted by force, Kubernetes frees its claim while the pod's processes may still run. So other pods of the
same job get no devices on that node until these processes have had time to end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from sunkpy.core.gang.actions import Bind, Binding
from sunkpy.core.gang.devices.asked import devices_counted
from sunkpy.core.gang.devices.chosen import (
    Chosen,
    DeviceDemand,
    DeviceLack,
    DevicesOnNode,
    choose_devices,
    lacking,
    note_devices,
)
from sunkpy.core.gang.devices.made import OWN_NAME, requests_of
from sunkpy.core.model.devices import PROTECTION, ResourceClaim, read_extra, why_unproved
from sunkpy.core.model.objects import Key, Node, Pod
from sunkpy.core.model.states import JobId, SlurmNode
from sunkpy.core.model.times import utc_now
from sunkpy.core.placement.admission import Admission
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.decoding import read_answer
from sunkpy.runtime.fan_out import fan_out
from sunkpy.scheduler.devices.handout import Handout
from sunkpy.scheduler.devices.made import ClaimMaker, Refused
from sunkpy.scheduler.devices.watch import Devices
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.pods.writer import PodWriter
from sunkpy.slurm import Slurm

Keeps = Callable[[str, JobId], str | None]
"""A function that takes a Kubernetes node and a job. It returns which pod of the job, deleted by force, may still run
there; None if there is none.
"""
SlurmdOf = Callable[[str], Pod | None]
"""A function that returns the slurmd pod of a Slurm node, as the watch shows it; None if there is none."""


class DevicePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The devices that were chosen for pods which are to be bound.

    Args:
        chosen: which claim gets which devices.
        obstacles: pod uid → why the pod cannot have its devices now.
        notes: pod uid → the value of the annotation that names the pod's devices.
    """

    chosen: Sequence[Chosen] = ()
    obstacles: Mapping[str, Admission] = {}
    notes: Mapping[str, str] = {}


class Allocator:
    """Chooses devices for the pods of a job, and writes them into the pods' claims; each leader has its own
    allocator.
    """

    def __init__(
        self,
        kube: Kube,
        slurm: Slurm,
        devices: Devices,
        pods: PodWriter,
        metrics: SchedulerMetrics,
        *,
        keeps: Keeps,
        slurmd_of: SlurmdOf,
        handout: Handout,
        maker: ClaimMaker,
    ) -> None:
        self._kube = kube
        self._slurm = slurm
        self._devices = devices
        self._pods = pods
        self._claims = metrics.claims
        self._mark = maker.mark
        self._keeps = keeps
        self._slurmd_of = slurmd_of
        self._handout = handout
        self._maker = maker

    async def plan(self, action: Bind, placed: Sequence[tuple[Pod, Node]]) -> DevicePlan:
        """Choose the devices for pods that are to be bound: those of their claims, and those that the device plugin
        gives them. Nothing is written yet.

        Raises:
            SlurmError: a Slurm node could not be read.
            KubeError: a slurmd pod, or the pods of a node, could not be read.
        """
        to = [(binding, node) for binding, (_, node) in zip(action.bindings, placed, strict=True)]
        asking = [(b, node) for b, node in to if b.pod.spec.resource_claims or devices_counted(b.pod)]
        by_plugin = [(binding, node) for binding, node in to if self._handout.gives_to(binding.pod)]
        if not asking and not by_plugin:
            return DevicePlan()
        listed: dict[str, SlurmNode] = {}
        unproved: dict[str, str] = {}

        async def read(slurm_node: str) -> None:
            listed[slurm_node] = await self._slurm.node(slurm_node)
            watched = self._slurmd_of(slurm_node)
            slurmd = await self._pods.read(watched.key, watched.uid) if watched is not None else None
            unproved[slurm_node] = why_unproved(listed[slurm_node].extra, slurmd, utc_now())

        # An earlier answer may be from before a reboot, when the indices meant other devices.
        await fan_out(partial(read, name) for name in {binding.note.slurm_node for binding, _ in (*asking, *by_plugin)})
        wanted = [self._wanted(binding, node, listed[binding.note.slurm_node]) for binding, node in asking]
        own = {claim.uid for each in wanted for claim in each.claims.values()}
        made_for = {each.pod.uid for each in wanted if OWN_NAME in each.claims}
        chosen, obstacles = choose_devices(wanted, self._devices.classes, self._devices.owner_but(own))
        known = self._devices.device_classes()
        for each in chosen:
            if absent := sorted(each.classes - known.keys()):
                lacks = f"there is no DeviceClass {absent[0]}"
                obstacles.setdefault(each.pod.uid, lacking(DeviceLack.CLAIM, lacks))
        for binding, node in asking:
            if missing := self._devices.missing([binding.pod]):
                obstacles.setdefault(binding.pod.uid, lacking(DeviceLack.CLAIM, f"{missing} is not there"))
            if why := self._keeps(node.name, action.job):
                obstacles.setdefault(binding.pod.uid, lacking(DeviceLack.ENDING, why))
        blind = await self._maker.blind({node.name: node for binding, node in asking if binding.pod.uid in made_for})
        obstacles |= {b.pod.uid: blind[n.name] for b, n in asking if b.pod.uid in made_for and n.name in blind}
        notes, held_up = await self._handout.plan(action.job, by_plugin, listed)
        stale = {
            binding.pod.uid: lacking(DeviceLack.STALE, f"which devices node {node.name} has is not proved: {why}")
            for binding, node in (*asking, *by_plugin)
            if (why := unproved[binding.note.slurm_node])
        }
        return DevicePlan(
            chosen=chosen, obstacles={**obstacles, **held_up, **stale}, notes={**note_devices(chosen), **notes}
        )

    def _wanted(self, binding: Binding, node: Node, slurm: SlurmNode) -> DeviceDemand:
        on = DevicesOnNode(
            node=node.name,
            listed=read_extra(slurm.extra),
            offered=self._devices.offered(node.name),
            counters=self._devices.counters(node.name),
        )
        pod = self._devices.as_written(binding.pod)
        mappings = tuple(whose for whose, _ in requests_of(pod.spec, self._devices.by_claim))
        claims = self._devices.claims_of(pod)
        counted = devices_counted(binding.pod)
        return DeviceDemand(
            pod=pod, on=on, indices=binding.note.devices, claims=claims, mappings=mappings, counted=counted
        )

    async def write(self, plan: DevicePlan) -> None:
        """Write the chosen devices into the claims of the pods. If one write fails, the devices of all these pods are
        freed again, as far as possible.

        Raises:
            Refused: the apiserver refuses a write, and would refuse it again.
            KubeError: a claim was not written; decide about the gang again.
        """
        try:
            await fan_out(partial(self._write, each) for each in plan.chosen if not each.is_written)
        except (errors.KubeError, Refused):
            self._claims.labels("failed").inc()
            for pod in {each.pod.uid: each.pod for each in plan.chosen}.values():
                await self._take_back(pod)
            raise

    async def _write(self, chosen: Chosen) -> None:
        try:
            claim = chosen.claim if chosen.claim.uid else await self._maker.make(chosen)
            if claim.is_allocated:  # an interrupted pass did it, for another node
                claim = await self._clear(claim)
            if PROTECTION not in claim.metadata.finalizers or claim.annotations.items().isdisjoint(self._mark.items()):
                finalizers = list(dict.fromkeys([*claim.metadata.finalizers, PROTECTION]))
                path, marks = paths.resource_claim(*claim.key), {"finalizers": finalizers, "annotations": self._mark}
                claim = await self._patch(claim, path, {}, **marks)
            status = chosen.status(self._devices.device_classes())
            await self._patch(claim, paths.status(paths.resource_claim(*claim.key)), {"status": status})
            self._claims.labels("allocated").inc()
            await self._maker.tell(chosen)
        except (errors.Forbidden, errors.Invalid) as error:
            why = f"the apiserver refuses the devices of claim {chosen.claim.name}: {error.message}"
            raise Refused(chosen.pod, why) from error

    async def release(self, pod: Pod) -> None:
        """Free the devices of all claims that are reserved for this pod, because the pod was not bound. Nothing happens
        if the pod has a node or is gone.

        Raises:
            KubeError: some devices were not freed; decide about the pod again.
        """
        found = await self._pods.read(pod.key, pod.uid)
        if found is None or found.spec.node_name:  # Kubernetes' own controller frees those of a pod that is gone
            return
        for claim in self._devices.claims_of(found).values():
            if claim.is_for(pod.uid):
                await self._clear(claim)

    async def has_lost_devices(self, pod: Pod) -> bool:
        """True if a bound pod no longer has its devices, as the apiserver says when pod and claims are read again. The
        watches do not suffice for that: the watch of claims may be ahead of the watch of pods, or behind it.
        """
        # Claims first: while the pod has not ended, Kubernetes' own controller has not freed them.
        await fan_out(partial(self._renew, key) for key in self._devices.rivals(pod))
        found = await self._pods.read(pod.key, pod.uid)
        return found is not None and bool(self._devices.lost([found]))

    async def _renew(self, key: Key) -> None:
        try:
            self._devices.take(await self._kube.get(paths.resource_claim(*key), ResourceClaim))
        except errors.NotFound:
            self._devices.forget(key)

    async def _take_back(self, pod: Pod) -> None:
        with contextlib.suppress(errors.KubeError):  # a later pass does it
            await self.release(pod)

    async def _clear(self, claim: ResourceClaim) -> ResourceClaim:
        empty = {"status": {"allocation": None, "reservedFor": None}}
        cleared = await self._patch(claim, paths.status(paths.resource_claim(*claim.key)), empty)
        self._claims.labels("taken back").inc()
        return cleared

    async def _patch(
        self, claim: ResourceClaim, path: str, body: Mapping[str, object], **metadata: object
    ) -> ResourceClaim:
        guard = {"uid": claim.uid, "resourceVersion": claim.metadata.resource_version}
        answer = await self._kube.patch(path, {"metadata": guard | metadata, **body})
        written = read_answer(f"PATCH {path}", answer, ResourceClaim)
        self._devices.take(written)
        return written
