"""Writes the nodes that NodeSets may get later into a ConfigMap, from which slurmctld's pod makes node records.

If something cannot be read, nothing changes. The ConfigMap also keeps which resources the nodes of a NodeSet last had.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from sunkpy.core import names
from sunkpy.core.mirror.decide import STALE_AFTER_S
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.slurmd import is_slurmd, slurm_node_of
from sunkpy.core.nodeset import potential
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.slurm import NodeCache
from sunkpy.syncer.places import ConfigMap
from sunkpy.syncer.topology import Topology

_LOOK_EACH_S: Final = 1.0
_AGAIN_S: Final = 10.0
_ALL_EACH_S: Final = 30.0
"""Seconds until all nodes are judged again: the resources of a node may change although no node comes or goes."""
_KEY: Final = "records"


class Potential:
    """Keeps the ConfigMap with the nodes that NodeSets may get later; does nothing if `config_map` is empty. `clock`:
    the same clock as that of `nodes`.
    """

    def __init__(
        self,
        kube: Kube,
        events: EventRecorder,
        *,
        cluster: str,
        namespace: str,
        config_map: str,
        nodesets: Informer[NodeSet],
        pods: Informer[Pod],
        nodes: NodeCache,
        topology: Topology,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._events = events
        self._cluster = cluster
        self._path = paths.config_map(namespace, config_map) if config_map else ""
        self._pods = pods
        self._nodes = nodes
        self._topology = topology
        self._clock = clock
        self._nodesets = nodesets
        self._written: str | None = None
        self._seen = (0, 0)
        self._changes = 0
        self._not_before_s = float("-inf")
        self._due_s = float("-inf")
        self._log = structlog.get_logger("syncer")
        nodesets.add_handler(lambda *_: self._changed())
        pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        """Keep the ConfigMap up to date until cancelled; return at once if it has no name."""
        if not self._path:
            return
        await self._nodesets.synced.wait()
        await self._pods.synced.wait()
        while True:
            if self._clock() >= self._not_before_s:
                await self._try()
            await asyncio.sleep(_LOOK_EACH_S)

    @property
    def offers(self) -> dict[str, str]:
        """NodeSet → the resources of one of its nodes, or of the last that it had, in the words of slurm.conf(5)."""
        return potential.read_offers(self._written or "")

    async def _try(self) -> None:
        try:
            await self._look()
        except KubeError as error:
            self._not_before_s = self._clock() + _AGAIN_S
            self._log.warning("the records of possible nodes could not be updated: tried again soon", why=str(error))

    async def _look(self) -> None:
        observation = self._nodes.observation
        if observation is None or self._nodes.age_s > STALE_AFTER_S + self._nodes.turn_s:
            return
        seen = (observation.listing, self._changes)
        if seen == self._seen and self._clock() < self._due_s:
            return
        nodesets = [each for each in self._nodesets.values() if each.spec.cluster == self._cluster]
        if self._written == "" and not any(each.spec.growth.potential for each in nodesets):
            return
        if (topology := self._topology.of_a_new_node) is None:
            return
        if self._written is None:
            self._written = (await self._kube.get(self._path, ConfigMap)).data.get(_KEY, "")
        last = potential.read_offers(self._written)
        records = potential.find_potential(nodesets, self._has(), last, topology=topology)
        for nodeset in nodesets:
            if why := potential.why_none(nodeset, records):
                await self._events.warning(
                    nodeset, names.NODESET_KIND, reason="PotentialUnknown", action="WriteRecords", note=why
                )
        text = potential.write(records)
        if text != self._written:
            await self._kube.patch(self._path, {"data": {_KEY: text}})
            self._written = text
            self._log.info("records of possible nodes written", records={each.nodeset: each.count for each in records})
        self._seen, self._due_s = seen, self._clock() + _ALL_EACH_S

    def _changed(self) -> None:
        self._changes += 1

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or new is None or _goes(old) != _goes(new):
            self._changed()

    def _has(self) -> Mapping[str, potential.Has]:
        """Return by NodeSet its nodes in Slurm, and how many of them are about to be removed."""
        observation = self._nodes.observation
        nodes = observation.nodes if observation is not None else {}
        own: defaultdict[str, list[str]] = defaultdict(list)
        going: defaultdict[str, int] = defaultdict(int)
        for pod in self._pods.values():
            if is_slurmd(pod) and (name := slurm_node_of(pod)) in nodes:
                nodeset = pod.labels.get(names.LABEL_NODESET, "")
                own[nodeset].append(name)
                going[nodeset] += _goes(pod)
        return {
            nodeset: potential.Has(nodes=tuple(nodes[name] for name in sorted(own_names)), going=going[nodeset])
            for nodeset, own_names in own.items()
        }


def _goes(pod: Pod) -> bool:
    return pod.is_deleting or names.ANNOTATION_PENDING_DELETION in pod.annotations
