"""Asks autoscalers for the nodes that NodeSets lack, by objects in the apiserver, and reports why no node comes.
`core.nodeset.asking` decides which objects there should be.

This work has a queue of its own, so that slurmd pods do not wait while a quota refuses placeholder pods. The objects
that ask for nodes are stored at the apiserver, so a new leader goes on where the last one stopped.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec
import structlog

from sunkpy.core import names
from sunkpy.core.model.conditions import as_json
from sunkpy.core.model.objects import Key, Kind, Node, Pod
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.core.nodeset.asking import (
    AUTOSCALING_GROUP,
    UNSCHEDULABLE,
    AskStep,
    ChangeBuffer,
    Create,
    Means,
    NodesToCome,
    Present,
    Remove,
    SayUnschedulable,
    StandIn,
    Told,
    decide_steps,
    describe_jobs,
    explain_missing,
    explain_refusal,
    wish_of,
)
from sunkpy.core.nodeset.release import released_nodes
from sunkpy.core.nodeset.removal import leaves
from sunkpy.core.nodeset.slurmd_pod import node_of
from sunkpy.core.nodeset.spec import Ask, NodeSet
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.decoding import read_answer
from sunkpy.kube.discovery import Resource, Served, read_served
from sunkpy.kube.events import EventRecorder
from sunkpy.operator.pod_index import nodeset_key

_AGAIN_S = 15.0  # an autoscaler looks each ten seconds; it reports a refusal within a minute
_SERVED_FOR_S = 300.0
_RETURNS_WITHIN_S = 60.0  # a node that was taken back gets its slurmd pod within seconds


class Asker:
    """Asks autoscalers for the nodes that NodeSets lack: makes and removes objects that autoscalers read, such as
    placeholder pods, a CapacityBuffer or ProvisioningRequests.
    """

    def __init__(
        self,
        kube: Kube,
        events: EventRecorder,
        *,
        nodes: Callable[[], Iterable[Node]] = tuple,
        wake: Callable[[Key], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._kube = kube
        self._events = events
        self._nodes = nodes
        self._wake = wake
        self._clock = clock
        self._now = now
        self._node_of: defaultdict[Key, dict[str, str]] = defaultdict(dict)
        self._returning: defaultdict[Key, dict[str, float]] = defaultdict(dict)
        self._grows: set[Key] = set()
        self._at_rest: set[Key] = set()
        self._served: tuple[float, Served] | None = None
        self._doubted_s: dict[Key, float] = {}
        self._resources: dict[Means, Resource] = {}
        self._log = structlog.get_logger("operator")

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Keep a list of each NodeSet's slurmd pods that are not about to be removed. A new pod means that a wanted
        node has come, so its NodeSet is looked at again.
        """
        before, after = (nodeset_key(pod) if pod is not None and not leaves(pod) else None for pod in (old, new))
        if before == after:
            return
        if old is not None and before is not None:
            self._node_of[before].pop(old.name, None)
        if new is not None and after is not None:
            self._node_of[after][new.name] = node_of(new)
        for key in self._grows.intersection((before, after)):
            self._wake(key)

    async def reconcile(self, key: Key) -> float | None:
        """Bring the objects that ask for nodes in line with what one NodeSet lacks. Return the seconds until the next
        pass; None if a change has to come first.

        Raises:
            KubeError: the apiserver did not answer, or the operator lacks a right.
        """
        try:
            nodeset = await self._kube.get(paths.nodeset(*key), NodeSet)
        except errors.NotFound:
            self._forget(key)
            return None
        wish = await self._take_back(nodeset, self._wish(nodeset))
        wish = wish if nodeset.spec.growth.ask is not Ask.NONE else NodesToCome()
        if not wish.nodes and key in self._at_rest:
            return None
        present = await self._present(nodeset)
        if self._may_lack(key, present):
            return _AGAIN_S
        steps = decide_steps(nodeset, wish, present, self._now())
        refused = await self._run(nodeset, steps)
        if not wish.nodes and not any(present.values()):
            self._at_rest.add(key)
            return None
        self._at_rest.discard(key)
        await self._tell(nodeset, wish, present, steps, refused)
        return _AGAIN_S

    def _forget(self, key: Key) -> None:
        """Forget a NodeSet that is gone. Kubernetes deletes the objects that asked for its nodes."""
        self._grows.discard(key)
        self._returning.pop(key, None)
        self._doubted_s.pop(key, None)
        self._at_rest.discard(key)

    def _wish(self, nodeset: NodeSet) -> NodesToCome:
        """Return how many nodes the NodeSet still wants: as its `status.growth` says, less the slurmd pods that have
        come since.
        """
        key = nodeset.key
        if nodeset.status.growth is None:
            self._grows.discard(key)
            return NodesToCome()
        self._grows.add(key)
        return wish_of(nodeset, there=len({*self._node_of[key].values(), *self._taken_back(key)}))

    def _taken_back(self, key: Key) -> list[str]:
        """Return the nodes that the NodeSet took back from autoscalers within the last minute. They count as having
        come, because their slurmd pods are expected.
        """
        expected = {node: at_s for node, at_s in self._returning[key].items() if at_s > self._clock()}
        self._returning[key] = expected
        return [*expected]

    async def _take_back(self, nodeset: NodeSet, wish: NodesToCome) -> NodesToCome:
        """Use nodes again that the NodeSet had released to autoscalers, if they still exist: remove the annotation that
        marks them. Return the wish without these nodes.
        """
        taken, known = 0, self._returning[nodeset.key]
        released = released_nodes(nodeset, self._nodes() if wish.nodes else ())
        for node in [node for node in released if node.name not in known][: wish.nodes]:
            body = {"metadata": {"uid": node.uid, "annotations": {names.ANNOTATION_RELEASED: None}}}
            try:
                await self._kube.patch(paths.node(node.name), body)
            except (errors.NotFound, errors.Conflict):
                continue  # it is gone
            taken += 1
            known[node.name] = self._clock() + _RETURNS_WITHIN_S
        if taken:
            note = (
                f"jobs want nodes: slurmd pods are made again on {taken} node{'' if taken == 1 else 's'} left to "
                "autoscalers"
            )
            await self._events.normal(nodeset, names.NODESET_KIND, reason="NodesTakenBack", action="Ask", note=note)
        return wish.without(taken)

    # ---------------------------------------------------------------------------------------------------- objects

    async def _present(self, nodeset: NodeSet) -> Present:
        found: dict[Means, list[StandIn]] = {}
        for means in Means:
            api_version = await self._api_version(means)
            if api_version is None:
                continue
            path = paths.collection(api_version, means.resource, nodeset.metadata.namespace)
            selector = f"{names.LABEL_WANTED}={nodeset.name}"
            try:
                found[means] = await self._kube.list_objects(path, StandIn, label_selector=selector)
            except errors.NotServed:
                self._resources.pop(means, None)
                self._served = None
                raise
        return found

    def _may_lack(self, key: Key, present: Present) -> bool:
        """True if the apiserver may serve CapacityBuffers or ProvisioningRequests although its last answer lacks one of
        these kinds. A PodTemplate of the NodeSet shows that an earlier leader asked for nodes by one of them.

        If the operator now asked by another kind, it would ask for the same nodes twice. So it first waits until a
        second answer, at least `_AGAIN_S` later, lacks the kind, too.
        """
        means = (Means.BUFFER, Means.REQUEST)
        is_named = any(present.get(each) for each in means)
        if is_named or not present.get(Means.TEMPLATE) or all(each in present for each in means):
            self._doubted_s.pop(key, None)
            return False
        read_s = self._served[0] if self._served is not None else self._clock()
        if read_s - self._doubted_s.setdefault(key, read_s) >= _AGAIN_S:
            return False
        self._served = None
        return True

    async def _api_version(self, means: Means) -> str | None:
        """Return the API version in which the apiserver serves this kind of object; None if the kind is not installed.

        A kind that was found once counts as served until a list of its objects answers 404. A discovery answer that
        lacks the kind does not prove that the kind is gone. If it counted, the operator would ask for the same nodes
        again by another kind of object.
        """
        if means in (Means.PLACEHOLDER, Means.TEMPLATE):
            return "v1"
        if self._served is None or self._clock() - self._served[0] > _SERVED_FOR_S:
            self._served = (self._clock(), await read_served(self._kube))
        kind, known = Kind(group=AUTOSCALING_GROUP, kind=means.kind), self._resources.get(means)
        resource = self._served[1].find(kind, rather=known) or known
        if resource is None:
            return None
        self._resources[means] = resource
        return resource.api_version

    async def _run(self, nodeset: NodeSet, steps: Iterable[AskStep]) -> str:
        """Write the steps in order. If the apiserver refuses one, leave out the rest and return its message; else
        return an empty text.
        """
        for step in steps:
            try:
                await self._write(nodeset, step)
            except (errors.NotFound, errors.Conflict):
                continue  # made or gone already: the next pass sees it
            except (errors.Invalid, errors.Forbidden) as error:
                return error.message
        return ""

    async def _write(self, nodeset: NodeSet, step: AskStep) -> None:
        match step:
            case Create(means, body):
                await self._create(nodeset, means, body)
            case Remove(means, found):
                path = await self._path(nodeset, means, found.name)
                await self._kube.delete(path, uid=found.uid, grace_period_s=0)
            case ChangeBuffer(found, spec):
                path = await self._path(nodeset, Means.BUFFER, found.name)
                await self._kube.patch(path, {"metadata": {"uid": found.uid}, "spec": spec})
            case SayUnschedulable(found):
                await self._say_unschedulable(found)

    async def _create(self, nodeset: NodeSet, means: Means, body: dict[str, object]) -> None:
        api_version = await self._api_version(means)
        whole = {"apiVersion": api_version, "kind": means.kind, **body}
        path = await self._path(nodeset, means)
        answer = await self._kube.create(path, whole)
        if means is Means.PLACEHOLDER:
            await self._say_unschedulable(read_answer(f"POST {path}", answer, StandIn))

    async def _say_unschedulable(self, found: StandIn) -> None:
        condition = msgspec.structs.replace(UNSCHEDULABLE, last_transition_time=rfc3339(self._now()))
        body = {"metadata": {"uid": found.uid}, "status": {"conditions": [as_json(condition)]}}
        await self._kube.patch(paths.status(paths.pod(*found.key)), body)

    async def _path(self, nodeset: NodeSet, means: Means, name: str = "") -> str:
        api_version = await self._api_version(means) or ""
        path = paths.collection(api_version, means.resource, nodeset.metadata.namespace)
        return f"{path}/{name}" if name else path

    # ------------------------------------------------------------------------------------------------------ words

    async def _tell(
        self, nodeset: NodeSet, wish: NodesToCome, present: Present, steps: Iterable[AskStep], refused: str
    ) -> None:
        """Write Events on the NodeSet: how many nodes autoscalers are asked for, or why none comes. An equal Event is
        written at most once in ten minutes.
        """
        kind, growth = names.NODESET_KIND, nodeset.status.growth
        many = f"{wish.nodes} node{'' if wish.nodes == 1 else 's'}"
        if refused or (missing := explain_missing(nodeset, present)):
            note = f"cannot ask autoscalers for {many}: {refused or missing}"
            await self._events.warning(nodeset, kind, reason="NodesNotAsked", action="Ask", note=note)
            return
        if growth is not None and any(isinstance(step, Create) for step in steps):
            note = f"asked autoscalers for {many}, for {describe_jobs(growth)}"
            await self._events.normal(nodeset, kind, reason="NodesAsked", action="Ask", note=note)
        for means in (Means.REQUEST, Means.BUFFER, Means.PLACEHOLDER):
            for found in present.get(means, ())[:1]:
                why = explain_refusal(found, await self._told(found), self._now())
                if why:
                    note = f"asked autoscalers for {many} by {means.kind} {found.name}: {why}"
                    await self._events.warning(nodeset, kind, reason="NodesRefused", action="Ask", note=note)
                    return

    async def _told(self, found: StandIn) -> list[Told]:
        path, told = paths.collection("v1", "events", found.metadata.namespace), list[Told]()
        for uid in found.told_of:
            selector = f"involvedObject.uid={uid}"
            told += await self._kube.list_objects(path, Told, field_selector=selector, may_be_old=True)
        return told
