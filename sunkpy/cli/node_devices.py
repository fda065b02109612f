"""Reads what Slurm and Kubernetes know about the devices of a node, as far as the person may read it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from sunkpy.cli.access import NOT_ASKED
from sunkpy.cli.readable_cluster import or_not
from sunkpy.core import names
from sunkpy.core.explain.devices import NodeFacts
from sunkpy.core.health import Record, read_record
from sunkpy.core.model.devices import ResourceClaim, ResourceSlice, current_devices
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.slurmd import is_slurmd, slurm_node_of
from sunkpy.core.model.states import JobId
from sunkpy.core.model.times import utc_now
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.slurm import Slurm, errors

T = TypeVar("T")

_SLURMD_PODS = f"{names.LABEL_ROLE}={names.ROLE_COMPUTE}"


class Unfindable(msgspec.Struct, frozen=True):
    """The result if it could not be found out whether a node exists. `unread`: what could not be read, and why."""

    unread: tuple[str, ...]


class DeviceReader:
    """Reads one node with its devices. `not_asked`: the text to note if there is no way to Slurm (`slurm` None).

    `slurms_silence`: after a read, why Slurm did not answer; empty if it did, or was not asked.
    """

    def __init__(self, kube: Kube, slurm: Slurm | None = None, *, not_asked: str = NOT_ASKED) -> None:
        self._kube = kube
        self._not_asked = not_asked
        self._slurm = slurm
        self._unread: list[str] = []
        self.slurms_silence = ""

    async def find(self, name: str) -> NodeFacts | Unfindable | None:
        """Read a node, its devices and its health by its name in Kubernetes or in Slurm. Return None if there is no
        such node, and `Unfindable` if the person may not read what would show it.

        Raises:
            KubeError: the apiserver did not answer.
        """
        listing = self._kube.list_objects(paths.ALL_PODS, Pod, label_selector=_SLURMD_PODS)
        listed = await self._or_none("slurmd pods", listing)
        slurmd = {pod.spec.node_name: slurm_node_of(pod) for pod in listed or () if is_slurmd(pod)}
        found = next((node for node, slurm_node in slurmd.items() if name in (node, slurm_node)), "")
        if not found:
            there = self._kube.list_objects(paths.NODES, Node, field_selector=f"metadata.name={name}")
            known = await self._or_none("nodes", there)
            if listed is None and not known:
                return Unfindable(tuple(self._unread))
            if known == []:
                return None
        facts = await self.read(found or name, slurmd.get(found, ""))
        return msgspec.structs.replace(facts, health=await self._health(facts.node))

    async def _health(self, name: str) -> Record | None:
        """Return the Node's health record; None if it has none, or if the person may not read Nodes."""
        there = self._kube.list_objects(paths.NODES, Node, field_selector=f"metadata.name={name}")
        nodes = await or_not("nodes", there, [])
        return next((read_record(node) for node in nodes or ()), None)

    async def read(self, node: str, slurm_node: str, *, job: JobId | None = None) -> NodeFacts:
        """Read the node's devices and pods in Kubernetes, and in Slurm the node and all jobs, or only `job`.

        Raises:
            KubeError: the apiserver did not answer.
        """
        slices = await self._or_none("ResourceSlices", self._kube.list_objects(paths.RESOURCE_SLICES, ResourceSlice))
        claims = await self._or_none("ResourceClaims", self._kube.list_objects(paths.RESOURCE_CLAIMS, ResourceClaim))
        on_node = self._kube.list_objects(paths.ALL_PODS, Pod, field_selector=f"spec.nodeName={node}")
        facts = NodeFacts(
            node=node,
            offered=current_devices(each for each in slices or () if each.spec.node_name == node),
            claims=tuple(claims or ()),
            pods=tuple(await self._or_none("pods of the node", on_node) or ()),
            unread=tuple(self._unread),
            now=utc_now(),
        )
        return await self._with_slurm(facts, slurm_node, job)

    async def _with_slurm(self, facts: NodeFacts, slurm_node: str, job: JobId | None) -> NodeFacts:
        changed: dict[str, object] = {}
        if self._slurm is None:
            self._unread.append(self._not_asked)
        elif slurm_node:
            try:
                jobs = [await self._slurm.job(job)] if job is not None else await self._slurm.jobs()
                changed = {"slurm": await self._slurm.node(slurm_node), "jobs": tuple(jobs)}
            except errors.SlurmError as error:
                self.slurms_silence = error.message
                self._unread.append(f"Slurm's side: {error.message}")
        return msgspec.structs.replace(facts, **changed, unread=tuple(self._unread))

    async def _or_none(self, what: str, answer: Awaitable[T]) -> T | None:
        return await or_not(what, answer, self._unread)
