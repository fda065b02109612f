"""Creates slurmd pods, carefully: each new template is tried in a dry run, and after a refusal the pass creates no more
pods.

Pods are created in waves (`core.nodeset.world:WAVE`), so that other steps of a NodeSet do not wait until it has filled
ten thousand nodes. They are not created faster than slurmctld takes new nodes in (`operator.memory:CREATED_PER_S`).
"""

from __future__ import annotations

from collections.abc import Sequence

from sunkpy.core import names
from sunkpy.core.model import hostlist
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.nodeset.actions import CreatePod
from sunkpy.core.nodeset.adoption import is_left_behind
from sunkpy.core.nodeset.naming import host_name
from sunkpy.core.nodeset.slurmd_pod import Json, build_pod, explain_limits
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.decoding import read_answer
from sunkpy.kube.events import EventRecorder
from sunkpy.operator.bodies import pod_metadata
from sunkpy.operator.memory import Memory
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.pod_index import PodIndex
from sunkpy.operator.window import MOST_AT_ONCE, work_through

_FULL_QUOTA = "exceeded quota"


class PodCreator:
    """Creates slurmd pods. A pod that the apiserver has accepted counts as existing before the watch shows it. The
    reason of a refusal is noted in `Memory`.
    """

    def __init__(
        self, kube: Kube, *, pods: PodIndex, memory: Memory, events: EventRecorder, metrics: OperatorMetrics
    ) -> None:
        self._kube = kube
        self._pods = pods
        self._memory = memory
        self._events = events
        self._metrics = metrics

    async def vet_template(self, nodeset: NodeSet, node: Node | None) -> None:
        """Try each new template in a dry run at the apiserver, so that no pod is removed for a template that the
        apiserver refuses.

        Args:
            nodeset: the NodeSet whose template is tried.
            node: any Node, because a pod has to be built for one. None: there is no Node, and nothing is tried.

        Raises:
            msgspec.ValidationError: the template is not a pod template.
            quantity.BadQuantity: a quantity of the NodeSet cannot be read.
        """
        if nodeset.is_deleting or node is None or self._memory.is_vetted(nodeset):
            return
        refusal = await self._try_out(nodeset, build_pod(nodeset, node, host_name(nodeset.prefix, "template-check")))
        if refusal is not None:
            self._memory.note_refusal(nodeset, refusal)
        self._memory.note_vetted(nodeset)

    async def _try_out(self, nodeset: NodeSet, body: Json) -> str | None:
        """Return why admission refuses a pod, or which limits it would add, by a dry run; empty if neither. None if the
        answer is not about the template, such as that a quota is full.
        """
        path = paths.pods(nodeset.metadata.namespace)
        try:
            answer = await self._kube.request("POST", path, params={"dryRun": "All"}, body=body)
        except errors.Invalid as error:
            return error.message
        except errors.Forbidden as error:
            return None if _FULL_QUOTA in error.message else error.message
        except errors.Conflict:
            return None  # the name is in use
        return explain_limits(body, read_answer(f"POST {path}", answer, dict[str, object]))

    async def create_all(self, nodeset: NodeSet, creations: Sequence[CreatePod]) -> None:
        """Create the pods, several at a time. While the template is new, begin with one pod, then 2, 4 … at a time, so
        that a bad template is refused once, not a thousand times.

        The first pod is tried in a dry run. If admission refuses it or adds limits to it, no pod is created: with such
        limits, jobs would be killed later.
        """
        if not creations:
            return
        if imposed := await self._try_out(nodeset, creations[0].body):
            self._memory.note_refusal(nodeset, imposed)
            return
        self._memory.note_created(nodeset, len(creations))
        refusals: list[str] = []
        made: list[str] = []

        async def create(creation: CreatePod) -> bool:
            refused = await self._create(nodeset, creation, made)
            refusals.extend([refused] if refused else [])
            return not refused

        at_first = MOST_AT_ONCE if self._memory.is_accepted(nodeset) else 1
        await work_through(creations, create, at_first=at_first)
        self._memory.note_refusal(nodeset, refusals[0] if refusals else "")
        if made and not refusals:
            note = f"created {hostlist.describe(made)}"
            await self._events.normal(nodeset, names.NODESET_KIND, reason="PodsCreated", action="Create", note=note)

    async def _create(self, nodeset: NodeSet, creation: CreatePod, made: list[str]) -> str:
        """Create one pod, and add its name to `made`. Return why it cannot be created; empty if it was, or exists
        already.
        """
        namespace = nodeset.metadata.namespace
        try:
            answer = await self._kube.create(paths.pods(namespace), creation.body)
        except errors.Conflict:
            return await self._explain_taken(nodeset, creation)
        except (errors.Invalid, errors.Forbidden) as error:
            return f"pod {creation.name}: {error.message}"
        self._pods.assume(read_answer(f"POST {paths.pods(namespace)}", answer, Pod))
        self._metrics.created.labels(*nodeset.key).inc()
        made.append(creation.name)
        return ""

    async def _explain_taken(self, nodeset: NodeSet, creation: CreatePod) -> str:
        """Return what is wrong with the pod that already has the name of a pod to create; empty if it can be used.

        A pod of this NodeSet that the watch has not shown yet is fine. A pod without an owner, left behind by an
        earlier NodeSet of this name, is taken over. Any other pod is an error.
        """
        try:
            pod = await self._kube.get(paths.pod(nodeset.metadata.namespace, creation.name), Pod)
        except errors.NotFound:
            return ""
        if nodeset.owns(pod):
            self._pods.assume(pod)
            return ""
        if is_left_behind(nodeset, pod, node=creation.node) and await self._adopt(nodeset, pod):
            return ""
        return f"pod {creation.name} exists and is not of this NodeSet: delete it, or choose another podNamePrefix"

    async def _adopt(self, nodeset: NodeSet, pod: Pod) -> bool:
        """Make the NodeSet the owner of a pod that an earlier NodeSet of its name left behind; False if that failed.
        The NodeSet is read again first: if it is being deleted, it may have left the pod behind itself.
        """
        namespace = nodeset.metadata.namespace
        try:
            found = await self._kube.get(paths.nodeset(namespace, nodeset.name), NodeSet)
            if found.uid != nodeset.uid or found.is_deleting:
                return False
            body = pod_metadata(pod, owner={**nodeset.controller_reference}, as_seen=True)
            await self._kube.patch(paths.pod(*pod.key), body)
        except (errors.NotFound, errors.Conflict):
            return False
        note = f"took over {pod.name}, left behind by an earlier NodeSet of this name"
        await self._events.normal(nodeset, names.NODESET_KIND, reason="PodAdopted", action="Adopt", note=note)
        return True
