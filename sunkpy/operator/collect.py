"""Collects what a decision reads, from watches and memory: a `World` for a NodeSet, or a Node with its slurmd pod.

The NodeSet itself is read from the apiserver at the start of each pass, because kopf only says *that* it changed. Pods
and nodes come from the informers; `Surveys` evaluates nodes that have changed. A slightly old copy does no harm,
because a write fails if its object has changed since the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from sunkpy.core.model.objects import Key, Node, Pod
from sunkpy.core.model.times import utc_now
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.nodeset.verdict import Trait
from sunkpy.core.nodeset.world import World
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer
from sunkpy.operator.memory import Memory
from sunkpy.operator.pod_index import PodIndex
from sunkpy.operator.surveys import Surveys


class Collector:
    """Collects what the decisions about NodeSets and Nodes read. It writes nothing to the cluster."""

    def __init__(
        self,
        kube: Kube,
        *,
        nodes: Informer[Node],
        pods: PodIndex,
        surveys: Surveys,
        memory: Memory,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._kube = kube
        self._nodes = nodes
        self._pods = pods
        self._surveys = surveys
        self._memory = memory
        self._now = now

    async def nodeset(self, key: Key) -> NodeSet | None:
        """Return the NodeSet as the apiserver has it now; None if it does not exist. What was remembered of it is then
        dropped.
        """
        try:
            nodeset = await self._kube.get(paths.nodeset(*key), NodeSet)
        except errors.NotFound:
            self._surveys.forget(key)
            self._memory.forget(key)
            return None
        self._pods.know(nodeset)
        return nodeset

    async def catch_up(self, nodeset: NodeSet) -> None:
        """Evaluate most of the changed nodes for this NodeSet, so that `world` has little left to do.

        Raises:
            msgspec.ValidationError: the template is not a pod template.
            quantity.BadQuantity: a quantity of the NodeSet or of a node cannot be read.
        """
        await self._surveys.catch_up(nodeset)

    def world(self, nodeset: NodeSet) -> World:
        """Return all that the decision about a NodeSet reads, with pods that were just created and that no watch shows
        yet.

        Raises:
            msgspec.ValidationError, quantity.BadQuantity: as in `catch_up`.
        """
        others = self._surveys.survey(nodeset).those(Trait.OTHER_OFFER)
        offers = {uid: judged.offer for uid, judged in others.items()}
        lasting, settle_in_s = self._memory.lasting_offers(nodeset, offers)
        survey = self._surveys.survey(nodeset, lasting)
        idle, idle_in_s = self._memory.long_idle(nodeset, survey.those(Trait.IDLE))
        return World(
            nodeset=nodeset,
            survey=survey,
            idle=idle,
            idle_in_s=idle_in_s,
            offers_settle_in_s=settle_in_s,
            failures=self._memory.failures(nodeset),
            create_error=self._memory.refusal(nodeset),
            room_to_create=self._memory.room_to_create(nodeset),
            now=self._now(),
        )

    def any_node(self) -> Node | None:
        """Return any Node of the cluster, because an example pod has to be built for one; None if there is no Node."""
        return next(iter(self._nodes.values()), None)

    def node_and_pod(self, name: str) -> tuple[Node | None, Pod | None]:
        """Return the Node of this name, and the slurmd pod that is bound to it. Each of them is None if it does not
        exist.
        """
        return self._nodes.get("", name), self._pods.slurmd_on(name)

    def occupants(self, node: str) -> Iterable[Pod]:
        """Return the pods on the node."""
        return self._pods.on_node(node)
