"""Creating slurmd pods, carefully: a template is asked about first, and the first refusal stops the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from sunkpy.core import names
from sunkpy.core.model import hostlist
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.nodeset.actions import CreatePod
from sunkpy.core.nodeset.naming import host_name
from sunkpy.core.nodeset.slurmd_pod import build_pod
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.operator.memory import Memory
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.pod_index import PodIndex

T = TypeVar("T")

_PARALLEL_CREATIONS = 16


class PodCreator:
    """Posts pods; what was accepted is assumed to be there, what was refused is remembered."""

    def __init__(
        self, kube: Kube, *, pods: PodIndex, memory: Memory, events: EventRecorder, metrics: OperatorMetrics
    ) -> None:
        self._kube = kube
        self._pods = pods
        self._memory = memory
        self._events = events
        self._metrics = metrics

    async def vet_template(self, nodeset: NodeSet, node: Node | None) -> None:
        """Ask the apiserver about each new template: one it refuses is known before a pod is taken for it.

        Args:
            nodeset: whose template it is.
            node: any node, as the pod has to be built for one; without nodes there is nothing to ask.

        Raises:
            msgspec.ValidationError: the template is not a pod template.
            quantity.BadQuantity: a quantity of the NodeSet cannot be read.
        """
        if nodeset.is_deleting or node is None or self._memory.is_vetted(nodeset):
            return
        body = build_pod(nodeset, node, host_name(nodeset.prefix, "template-check"))
        try:
            params = {"dryRun": "All"}
            await self._kube.request("POST", paths.pods(nodeset.metadata.namespace), params=params, body=body)
        except errors.Invalid as error:
            self._memory.note_refusal(nodeset, error.message)
        except (errors.Conflict, errors.Forbidden):
            pass  # a name in use or a full quota says nothing about the template
        else:
            self._memory.note_refusal(nodeset, "")
        self._memory.note_vetted(nodeset)

    async def create_all(self, nodeset: NodeSet, creations: Sequence[CreatePod]) -> None:
        """Create in batches of 1, 2, 4 …: a template that is refused is refused once, not a thousand times."""
        if not creations:
            return
        for batch in slow_start(creations):
            answers = await asyncio.gather(*(self._create(nodeset, creation) for creation in batch))
            refused = next((answer for answer in answers if answer), "")
            if refused:
                self._memory.note_refusal(nodeset, refused)
                return
        self._memory.note_refusal(nodeset, "")
        note = f"created {hostlist.compress(creation.name for creation in creations)}"
        await self._events.normal(nodeset, names.NODESET_KIND, reason="PodsCreated", action="Create", note=note)

    async def _create(self, nodeset: NodeSet, creation: CreatePod) -> str:
        """Create one pod; what the apiserver objects to, or empty."""
        namespace = nodeset.metadata.namespace
        try:
            answer = await self._kube.create(paths.pods(namespace), creation.body)
        except errors.Conflict:
            return await self._explain_taken(nodeset, creation)
        except (errors.Invalid, errors.Forbidden) as error:
            return f"pod {creation.name}: {error.message}"
        self._pods.assume(msgspec.json.decode(answer, type=Pod))
        self._metrics.created.labels(*nodeset.key).inc()
        return ""

    async def _explain_taken(self, nodeset: NodeSet, creation: CreatePod) -> str:
        """The name exists: a pod of ours that the watch has not shown yet is fine, anybody else's is not."""
        try:
            pod = await self._kube.get(paths.pod(nodeset.metadata.namespace, creation.name), Pod)
        except errors.NotFound:
            return ""
        if nodeset.owns(pod):
            self._pods.assume(pod)
            return ""
        return f"pod {creation.name} exists and is not of this NodeSet: delete it, or choose another podNamePrefix"


def slow_start(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """1, 2, 4 … items, up to the number of parallel creations."""
    start, size = 0, 1
    while start < len(items):
        yield items[start : start + size]
        start, size = start + size, min(size * 2, _PARALLEL_CREATIONS)
