"""One NodeSet at a time: read it, decide, execute, write the status once.

The NodeSet itself is read from the apiserver at the start of each pass (kopf only says *that* it changed), pods and
nodes come from the informers. Every write is guarded by what it was decided on, so acting on an old copy fails instead
of doing harm; the next pass repairs what this one could not finish.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec
import structlog

from sunkpy.core import names
from sunkpy.core.model import hostlist
from sunkpy.core.model.objects import Condition, Key, Node, Pod
from sunkpy.core.model.quantity import BadQuantity
from sunkpy.core.model.times import rfc3339
from sunkpy.core.nodeset.actions import (
    AddFinalizer,
    CancelPending,
    CreatePod,
    DeletePod,
    MarkPending,
    NodeSetAction,
    RemoveFinalizer,
)
from sunkpy.core.nodeset.decide import Plan, decide_nodeset
from sunkpy.core.nodeset.naming import host_name
from sunkpy.core.nodeset.node_side import Changes
from sunkpy.core.nodeset.protection import budget_name, build_budget
from sunkpy.core.nodeset.slurmd_pod import build_pod, node_of, template_hash
from sunkpy.core.nodeset.spec import NodeSet, NodeSetStatus
from sunkpy.core.nodeset.status import Notice, report
from sunkpy.core.nodeset.world import World
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.operator import bodies
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.pod_index import PodIndex

T = TypeVar("T")

_PARALLEL_WRITES = 16
_REFUSED_AGAIN_S = 15.0  # a quota or an admission rule may change without any event that we see
_TOO_LATE_AGAIN_S = 1.0  # the watch will normally bring the newer object before that


class NodeSetReconciler:
    """Runs `decide` for the NodeSet of a key and executes what it says."""

    def __init__(
        self,
        kube: Kube,
        events: EventRecorder,
        metrics: OperatorMetrics,
        *,
        nodes: Informer[Node],
        pods: PodIndex,
        now: Callable[[], datetime],
    ) -> None:
        self._kube = kube
        self._events = events
        self._metrics = metrics
        self._nodes = nodes
        self._pods = pods
        self._now = now
        self._claims: dict[str, Key] = {}  # nodes for which a pod is being created
        self._refusals: dict[Key, tuple[str, str]] = {}  # template hash, what the apiserver said
        self._vetted: dict[Key, str] = {}  # hash of the template that the apiserver was last asked about
        self._failures: dict[Key, dict[str, int]] = {}
        self._guarded: dict[Key, str] = {}  # uid of the NodeSet whose disruption budget has been written
        self._log = structlog.get_logger("nodeset")

    def pod_became_ready(self, pod: Pod) -> None:
        """The pauses after failures on this pod's node start again from the shortest."""
        key = (pod.metadata.namespace, pod.labels.get(names.LABEL_NODESET, ""))
        self._failures.get(key, {}).pop(node_of(pod), None)

    async def reconcile(self, key: Key) -> float | None:
        """One pass.

        Raises:
            KubeError: the apiserver did not answer, or refuses us a right.
        """
        try:
            nodeset = await self._kube.get(paths.nodeset(*key), NodeSet)
        except errors.NotFound:
            self._forget(key)
            return None
        await self._guard(nodeset)
        try:
            await self._vet_template(nodeset)
            world = self._snapshot(nodeset)
            plan = decide_nodeset(world)
        except (msgspec.ValidationError, BadQuantity) as error:
            await self._report_unreadable(nodeset, error)
            return None
        again_s = await self._execute(nodeset, plan)
        # What the apiserver refused just now belongs into this pass's report.
        world = msgspec.structs.replace(world, create_error=self._refusal(nodeset))
        status, notices = report(world, plan)
        await self._write_status(nodeset, status)
        await self._say(nodeset, notices)
        refused_s = _REFUSED_AGAIN_S if world.create_error else None
        return min((s for s in (again_s, refused_s, plan.requeue_after_s) if s is not None), default=None)

    def _snapshot(self, nodeset: NodeSet) -> World:
        return World(
            nodeset=nodeset,
            nodes={node.name: node for node in self._nodes.values()},
            slurmd_pods=self._pods.slurmd_pods(),
            occupants=self._pods.by_node(),
            failures=dict(self._failures.get(nodeset.key, {})),
            create_error=self._refusal(nodeset),
            now=self._now(),
        )

    def _forget(self, key: Key) -> None:
        self._metrics.forget(key)
        self._refusals.pop(key, None)
        self._vetted.pop(key, None)
        self._guarded.pop(key, None)
        self._failures.pop(key, None)

    def _refusal(self, nodeset: NodeSet) -> str:
        hash_, text = self._refusals.get(nodeset.key, ("", ""))
        return text if hash_ == template_hash(nodeset) else ""

    # ------------------------------------------------------------- execution

    async def _execute(self, nodeset: NodeSet, plan: Plan) -> float | None:
        """Do the steps; after how many seconds to look again because one came too late or was refused."""
        creations = self._claimed(nodeset, plan.actions)
        others = [action for action in plan.actions if not isinstance(action, CreatePod)]
        try:
            waits = [await self._run_one(nodeset, action) for action in others if _is_about_nodeset(action)]
            for batch in _chunks([action for action in others if not _is_about_nodeset(action)], _PARALLEL_WRITES):
                waits += await asyncio.gather(*(self._run_one(nodeset, action) for action in batch))
            await self._create_all(nodeset, creations)
        finally:
            for creation in creations:
                self._claims.pop(creation.node, None)
        await self._say_removals(nodeset, others)
        return min((wait_s for wait_s in waits if wait_s is not None), default=None)

    def _claimed(self, nodeset: NodeSet, actions: Iterable[NodeSetAction]) -> list[CreatePod]:
        """The creations on nodes that no other NodeSet is filling at this moment.

        Called without an await since the snapshot: so two NodeSets never both think a node free.
        """
        mine = [a for a in actions if isinstance(a, CreatePod) and a.node not in self._claims]
        self._claims |= {action.node: nodeset.key for action in mine}
        return mine

    async def _run_one(self, nodeset: NodeSet, action: NodeSetAction) -> float | None:
        try:
            return await self._write(nodeset, action)
        except errors.NotFound:
            return None  # gone already: the watch will say so
        except errors.Conflict:
            return _TOO_LATE_AGAIN_S

    async def _write(self, nodeset: NodeSet, action: NodeSetAction) -> float | None:
        match action:
            case AddFinalizer():
                await self._set_finalizers(nodeset, [*nodeset.metadata.finalizers, names.FINALIZER_NODESET])
            case RemoveFinalizer():
                return await self._let_go(nodeset)
            case MarkPending(pod, token):
                changes = {names.ANNOTATION_PENDING_DELETION: token.encode()}
                await self._kube.patch(paths.pod(*pod.key), bodies.pod_metadata(pod, annotations=changes, as_seen=True))
            case CancelPending(pod):
                gone: Changes = {names.ANNOTATION_PENDING_DELETION: None}
                await self._kube.patch(paths.pod(*pod.key), bodies.pod_metadata(pod, annotations=gone, as_seen=True))
            case DeletePod(pod, why):
                await self._delete(nodeset, pod, why)
        return None

    async def _delete(self, nodeset: NodeSet, pod: Pod, why: str) -> None:
        version = pod.metadata.resource_version
        await self._kube.delete(paths.pod(*pod.key), uid=pod.uid, resource_version=version)
        self._metrics.deleted.labels(*nodeset.key, why).inc()
        if why == "failed":
            counts = self._failures.setdefault(nodeset.key, {})
            counts[node_of(pod)] = counts.get(node_of(pod), 0) + 1
            note = f"pod {pod.name} failed: {pod.status.reason} {pod.status.message}".strip()
            await self._events.warning(nodeset, names.NODESET_KIND, reason="PodFailed", action="Replace", note=note)

    async def _set_finalizers(self, nodeset: NodeSet, finalizers: Sequence[str]) -> None:
        metadata = {"resourceVersion": nodeset.metadata.resource_version, "finalizers": list(finalizers)}
        await self._kube.patch(paths.nodeset(*nodeset.key), {"metadata": metadata})

    async def _let_go(self, nodeset: NodeSet) -> float | None:
        """Take our finalizer away, after asking the apiserver itself that no pod is left."""
        selector = f"{names.LABEL_NODESET}={nodeset.name},{names.LABEL_ROLE}={names.ROLE_COMPUTE}"
        if await self._kube.list_objects(paths.pods(nodeset.metadata.namespace), Pod, label_selector=selector):
            return _TOO_LATE_AGAIN_S
        kept = [name for name in nodeset.metadata.finalizers if name != names.FINALIZER_NODESET]
        await self._set_finalizers(nodeset, kept)
        return None

    async def _guard(self, nodeset: NodeSet) -> None:
        """Write the disruption budget; once in the life of this process, for nothing of it changes."""
        if nodeset.is_deleting or self._guarded.get(nodeset.key) == nodeset.uid:
            return
        path = paths.disruption_budget(nodeset.metadata.namespace, budget_name(nodeset))
        try:
            await self._kube.apply(path, build_budget(nodeset), field_manager="sunkpy-operator")
        except (errors.Forbidden, errors.Invalid) as error:
            # The set must not stay empty for it; but evictions are then not held back.
            self._log.error("pods are not protected from eviction", nodeset=nodeset.name, error=str(error))
        self._guarded[nodeset.key] = nodeset.uid

    # -------------------------------------------------------------- creation

    async def _vet_template(self, nodeset: NodeSet) -> None:
        """Ask the apiserver about each new template: one it refuses is known before a pod is taken for it."""
        hash_ = template_hash(nodeset)
        node = next(iter(self._nodes.values()), None)
        is_settled = self._vetted.get(nodeset.key) == hash_ and not self._refusal(nodeset)
        if nodeset.is_deleting or node is None or is_settled:
            return
        body = build_pod(nodeset, node, host_name(nodeset.prefix, "template-check"))
        try:
            params = {"dryRun": "All"}
            await self._kube.request("POST", paths.pods(nodeset.metadata.namespace), params=params, body=body)
        except errors.Invalid as error:
            self._refusals[nodeset.key] = (hash_, error.message)
        except (errors.Conflict, errors.Forbidden):
            pass  # a name in use or a full quota says nothing about the template
        else:
            self._refusals.pop(nodeset.key, None)
        self._vetted[nodeset.key] = hash_

    async def _create_all(self, nodeset: NodeSet, creations: Sequence[CreatePod]) -> None:
        """Create in batches of 1, 2, 4 …: a template that is refused is refused once, not a thousand times."""
        if not creations:
            return
        refused = ""
        for batch in _slow_start(creations):
            answers = await asyncio.gather(*(self._create(nodeset, creation) for creation in batch))
            refused = next((answer for answer in answers if answer), "")
            if refused:
                break
        if refused:
            self._refusals[nodeset.key] = (template_hash(nodeset), refused)
            return
        self._refusals.pop(nodeset.key, None)
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
        if nodeset.owns(pod.labels, pod.metadata.namespace):
            self._pods.assume(pod)
            return ""
        return f"pod {creation.name} exists and is not of this NodeSet: delete it, or choose another podNamePrefix"

    # ------------------------------------------------------------- reporting

    async def _write_status(self, nodeset: NodeSet, status: NodeSetStatus) -> None:
        self._metrics.observe(nodeset, status)
        if status == nodeset.status:
            return
        try:
            await self._kube.patch(paths.status(paths.nodeset(*nodeset.key)), bodies.nodeset_status(status))
        except errors.NotFound:
            return  # its finalizer went in this pass

    async def _report_unreadable(self, nodeset: NodeSet, error: msgspec.ValidationError | BadQuantity) -> None:
        """The schema lets through what it cannot check inside the template: say it, touch no pod."""
        now = rfc3339(self._now())
        condition = Condition(
            type="Progressing",
            status="False",
            reason="BadSpec",
            message=f"{error}; nothing is changed until the NodeSet is mended",
            last_transition_time=now,
            observed_generation=nodeset.metadata.generation,
        )
        old = nodeset.status.condition("Progressing")
        if old is None or (old.reason, old.message) != (condition.reason, condition.message):
            others = tuple(c for c in nodeset.status.conditions if c.type != "Progressing")
            status = msgspec.structs.replace(nodeset.status, conditions=(*others, condition))
            await self._write_status(nodeset, status)
            await self._say(nodeset, [Notice("Warning", "BadSpec", condition.message)])

    async def _say(self, nodeset: NodeSet, notices: Iterable[Notice]) -> None:
        for notice in notices:
            write = self._events.warning if notice.type == "Warning" else self._events.normal
            await write(nodeset, names.NODESET_KIND, reason=notice.reason, action="Reconcile", note=notice.message)

    async def _say_removals(self, nodeset: NodeSet, actions: Iterable[NodeSetAction]) -> None:
        groups: dict[tuple[str, str], list[str]] = {}
        for action in actions:
            match action:
                case MarkPending(pod, token):
                    groups.setdefault(("PodsDraining", f"to be removed ({token.cause}) once drained"), []).append(
                        pod.name
                    )
                case CancelPending(pod):
                    groups.setdefault(("RemovalCancelled", "stays after all"), []).append(pod.name)
                case DeletePod(pod, why):
                    groups.setdefault(("PodsDeleted", f"deleted ({why})"), []).append(pod.name)
                case _:
                    pass
        for (reason, text), pods in groups.items():
            note = f"{hostlist.compress(pods)} {text}"
            self._log.info(
                text, nodeset=nodeset.name, namespace=nodeset.metadata.namespace, pods=hostlist.compress(pods)
            )
            await self._events.normal(nodeset, names.NODESET_KIND, reason=reason, action="Remove", note=note)


def _is_about_nodeset(action: NodeSetAction) -> bool:
    return isinstance(action, (AddFinalizer, RemoveFinalizer))


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _slow_start(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """1, 2, 4 … items, up to the number of parallel writes."""
    start, size = 0, 1
    while start < len(items):
        yield items[start : start + size]
        start, size = start + size, min(size * 2, _PARALLEL_WRITES)
