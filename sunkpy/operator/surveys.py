"""Keeps for each NodeSet a survey: the sums of the verdicts on all nodes (may the node have a slurmd pod, what does its
pod count as?). Nodes that have changed since the last pass are evaluated again.

A change only adds the node's name to a set; the next pass makes one verdict for it, even if the node has changed ten
times. A NodeSet whose spec has changed gets a new survey. The resync evaluates every node again, in slices, so that ten
thousand verdicts never keep the process from its lease, its watches and its probes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import islice

from sunkpy.core.model.objects import Key, Node
from sunkpy.core.nodeset.slurmd_pod import node_of
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.nodeset.survey import Survey
from sunkpy.core.nodeset.verdict import NodeView
from sunkpy.core.nodeset.wanted import Wanted
from sunkpy.kube.informer import Informer
from sunkpy.operator.node_devices import NodeDevices
from sunkpy.operator.pod_index import PodIndex

_SLICE = 100  # verdicts without a pause: 6 ms


@dataclass
class _Running:
    """A survey, the nodes to evaluate again (`stale`), and the slurmd pods (by uid) whose node has for long enough
    offered to Slurm something other than the pod was made for.
    """

    survey: Survey
    stale: set[str]
    lasting_offers: frozenset[str] = field(default_factory=frozenset)


class Surveys:
    """Keeps the survey of each NodeSet for which one was asked: the sums of the verdicts on all nodes."""

    def __init__(self, nodes: Informer[Node], pods: PodIndex, devices: NodeDevices | None = None) -> None:
        self._nodes = nodes
        self._pods = pods
        self._devices = devices or NodeDevices()
        self._running: dict[Key, _Running] = {}

    def touch(self, node: str) -> None:
        """Note for all surveys that the node, or a pod on it, has changed."""
        for running in self._running.values():
            running.stale.add(node)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Note for all surveys that a Node has changed, as the watch of Nodes reports."""
        for node in (old, new):
            if node is not None:
                self.touch(node.name)

    def touch_all(self) -> None:
        """Note for all surveys that each node may have changed, in case an event was missed."""
        for running in self._running.values():
            running.stale |= self._all() | running.survey.judged

    def forget(self, key: Key) -> None:
        """Drop the survey of a NodeSet that is gone."""
        self._running.pop(key, None)

    async def catch_up(self, nodeset: NodeSet) -> None:
        """Evaluate most of the changed nodes for this NodeSet, with pauses for other tasks.

        Raises:
            msgspec.ValidationError: the template is not a pod template.
            quantity.BadQuantity: a quantity of the NodeSet or of a node cannot be read.
        """
        self._pods.expire()
        running = self._of(nodeset)
        while len(running.stale) > _SLICE:
            self._judge(running, _SLICE)
            await asyncio.sleep(0)

    def survey(self, nodeset: NodeSet, lasting_offers: frozenset[str] | None = None) -> Survey:
        """Evaluate all changed nodes, and return the NodeSet's survey. `lasting_offers`: the slurmd pods (by uid) whose
        node has for long enough offered to Slurm something other than the pod was made for; None changes nothing.

        Raises:
            msgspec.ValidationError, quantity.BadQuantity: as in `catch_up`.
        """
        running = self._of(nodeset)
        if lasting_offers is not None and lasting_offers != running.lasting_offers:
            turned = (running.survey.pods.get(uid) for uid in lasting_offers ^ running.lasting_offers)
            running.stale |= {node_of(judged.pod) for judged in turned if judged is not None}
            running.lasting_offers = lasting_offers
        self._judge(running, len(running.stale))
        return running.survey

    def _of(self, nodeset: NodeSet) -> _Running:
        running = self._running.get(nodeset.key)
        if running is None or not running.survey.wanted.is_still_of(nodeset):
            running = self._running[nodeset.key] = _Running(Survey(Wanted.read(nodeset)), self._all())
        return running

    def _all(self) -> set[str]:
        return {node.name for node in self._nodes.values()} | set(self._pods.nodes())

    def _judge(self, running: _Running, count: int) -> None:
        for name in list(islice(running.stale, count)):
            running.survey.look(self._view(running, name))
            running.stale.discard(name)

    def _view(self, running: _Running, name: str) -> NodeView:
        node = self._nodes.get("", name)
        return NodeView(
            name=name,
            node=self._devices.add_to(node) if node is not None else None,
            slurmd_pods=self._pods.slurmd_pods(name),
            occupants=tuple(self._pods.on_node(name)),
            lasting_offers=running.lasting_offers,
        )
