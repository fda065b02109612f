"""Reads the pool of a Slurm cluster, as far as the person may read it, in a few parallel requests.

The apiserver answers most of them from its cache, so a person who watches the pool causes little load on etcd.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, Self, TypeVar

import msgspec

from sunkpy.cli.access import NOT_ASKED
from sunkpy.cli.connected import Sides
from sunkpy.cli.readable_cluster import or_not, read_settings
from sunkpy.core import names
from sunkpy.core.model.events import Event
from sunkpy.core.model.objects import KubeObject, Node, Pod
from sunkpy.core.model.slurmd import is_slurmd, slurm_node_of
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.overview.history import NodePast
from sunkpy.core.overview.pool import PoolFacts
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.slurm import NodesSnapshot, Slurm, errors

U = TypeVar("U", bound=KubeObject)

_SLURMD_PODS: Final = f"{names.LABEL_ROLE}={names.ROLE_COMPUTE}"
_NAMES: Final = ("slurm",)
"""The assumed names of the scheduler if its settings could not be read: the chart's default."""
_USER: Final = "k8s"


class PoolReader:
    """Reads the pool (NodeSets, nodes, jobs and pods). `namespace`: only the Slurm cluster in this namespace; if empty,
    that of `settings`, and without `settings` all Slurm clusters.

    `not_asked`: the text to note if there is no way to Slurm (`slurm` None). `slurms_silence`: after a read, why Slurm
    did not answer; empty if it did, or was not asked.
    """

    def __init__(
        self,
        kube: Kube,
        slurm: Slurm | None,
        settings: SchedulerSettings | None,
        *,
        namespace: str = "",
        not_asked: str = NOT_ASKED,
    ) -> None:
        self._kube = kube
        self._slurm = slurm
        self._at_hand = settings
        self.namespace = namespace or (settings.namespace if settings is not None else "")
        self._not_asked = not_asked
        self._unread: list[str] = []
        self.slurms_silence = ""

    @classmethod
    def over(cls, sides: Sides, *, namespace: str = "") -> Self:
        """Return a reader that uses these connections."""
        return cls(sides.kube, sides.slurm, sides.settings, namespace=namespace, not_asked=sides.not_asked)

    async def read(self) -> PoolFacts:
        """Read all that `kubectl sunk status` shows: NodeSets, nodes, slurmd pods and workload pods from Kubernetes,
        and nodes, partitions and jobs from Slurm.

        Raises:
            KubeError: the apiserver did not answer.
        """
        facts, nodesets, nodes, slurmd = await asyncio.gather(
            self.read_queue(with_nodes=True),
            self._listed("NodeSets", paths.nodesets(self.namespace), NodeSet),
            self._listed("nodes", paths.NODES, Node),
            self._listed("slurmd pods", paths.pods(self.namespace), Pod, labels=_SLURMD_PODS),
        )
        return msgspec.structs.replace(
            facts,
            nodesets=tuple(nodesets) if nodesets is not None else None,
            nodes=tuple(nodes) if nodes is not None else None,
            slurmd_pods=tuple(pod for pod in slurmd if is_slurmd(pod)) if slurmd is not None else None,
            unread=tuple(dict.fromkeys(self._unread)),
        )

    async def read_queue(self, *, with_nodes: bool = False) -> PoolFacts:
        """Read the workload pods and Slurm's jobs, which `kubectl sunk queue` shows. `with_nodes`: also Slurm's nodes.

        Raises:
            KubeError: the apiserver did not answer.
        """
        self._unread, self.slurms_silence = [], ""
        settings = await read_settings(self._kube, self._at_hand, self._unread)
        own = [each for each in settings if not self.namespace or each.namespace == self.namespace]
        wanted = dict.fromkeys(name for each in own for name in each.scheduler_names) or _NAMES
        if settings and not own:
            there = ", ".join(sorted({each.namespace for each in settings}))
            none = f"there is none in namespace {self.namespace}; there are some in {there}: name one of these with -n"
            self._unread.append(f"Slurm cluster: {none}")
        user = own[0].slurm.user if own else _USER
        found, facts = await asyncio.gather(self._pods(wanted), self._of_slurm(user, with_nodes=with_nodes))
        if self._slurm is None:
            self._unread.append(self._not_asked)
        elif self.slurms_silence:
            self._unread.append(f"Slurm's side: {self.slurms_silence}")
        return msgspec.structs.replace(
            facts,
            pods=found or (),
            are_pods_read=found is not None,
            unread=tuple(dict.fromkeys(self._unread)),
        )

    async def namespaces_of_node(self, name: str) -> frozenset[str]:
        """Return the namespaces that have a slurmd pod for a node with this name in Kubernetes or Slurm; empty if there
        are none, or if the person may not read slurmd pods.

        Raises:
            KubeError: the apiserver did not answer.
        """
        listing = self._kube.list_objects(paths.ALL_PODS, Pod, label_selector=_SLURMD_PODS, may_be_old=True)
        slurmd = [pod for pod in await or_not("slurmd pods", listing, []) or () if is_slurmd(pod)]
        return frozenset(pod.metadata.namespace for pod in slurmd if name in (pod.spec.node_name, slurm_node_of(pod)))

    async def past(self, name: str) -> NodePast | None:
        """Read what is known about the past of a node; None if no node has this name in Kubernetes or in Slurm.

        Raises:
            KubeError: the apiserver did not answer.
        """
        self._unread, self.slurms_silence = [], ""
        listed = await self._listed("slurmd pods", paths.pods(self.namespace), Pod, labels=_SLURMD_PODS)
        slurmd = [pod for pod in listed or () if is_slurmd(pod)]
        pod = next((each for each in slurmd if name in (each.spec.node_name, slurm_node_of(each))), None)
        node_name = pod.spec.node_name if pod is not None and pod.spec.node_name else name
        nodes = await self._listed("nodes", paths.NODES, Node, fields=f"metadata.name={node_name}")
        if pod is None and nodes == []:
            return None
        node = nodes[0] if nodes else None
        remembered = node.annotations.get(names.ANNOTATION_PLACED_ON, "") if node is not None else ""
        slurm_name = slurm_node_of(pod) if pod is not None else remembered
        about = dict.fromkeys(filter(None, (node_name, slurm_name, pod.name if pod is not None else "")))
        events = await asyncio.gather(*(self._events(each, pod) for each in about))
        slurm = await self._slurm_node(slurm_name)
        return NodePast(
            name=node_name,
            slurm_name=slurm_name,
            node=node,
            pod=pod,
            slurm=slurm,
            events=tuple(event for found in events for event in found),
            unread=tuple(dict.fromkeys(self._unread)),
        )

    async def _events(self, name: str, slurmd: Pod | None) -> list[Event]:
        """Return the Events about the Node of this name, or about the slurmd pod of this name in its namespace."""
        namespace = slurmd.metadata.namespace if slurmd is not None else self.namespace
        listed = await self._listed("Events", paths.ALL_EVENTS, Event, fields=f"involvedObject.name={name}")
        about = ((event, event.involved_object) for event in listed or ())
        return [event for event, of in about if of.kind == "Node" or (of.kind == "Pod" and of.namespace == namespace)]

    async def _slurm_node(self, name: str) -> SlurmNode | None:
        if self._slurm is None or not name:
            return None
        try:
            return await self._slurm.node(name)
        except errors.NotFound:
            return None
        except errors.SlurmError as error:
            self.slurms_silence = error.message
            self._unread.append(f"Slurm's side: {error.message}")
            return None

    async def _of_slurm(self, user: str, *, with_nodes: bool) -> PoolFacts:
        """Read jobs and partitions, and if `with_nodes` nodes, from Slurm; the result has none if Slurm does not
        answer. `user`: the Slurm user of sunkpy's scheduler.
        """
        if self._slurm is None:
            return PoolFacts()
        try:
            snapshot, partitions, jobs = await asyncio.gather(
                self._slurm.nodes() if with_nodes else asyncio.sleep(0, None),
                self._slurm.partitions(),
                self._slurm.queued_jobs(scheduler=user),
            )
        except errors.SlurmError as error:
            self.slurms_silence = error.message
            return PoolFacts()
        return PoolFacts(
            jobs=tuple(jobs),
            tiers={each.name: each.priority_tier for each in partitions},
            partitions={each.name: each.nodes for each in partitions},
            slurm_nodes=snapshot.nodes if isinstance(snapshot, NodesSnapshot) else None,
        )

    async def _pods(self, schedulers: Iterable[str]) -> tuple[Pod, ...] | None:
        """Return the pods of all namespaces that name one of these schedulers and have not ended; None if the person
        may not read them.
        """
        living = "status.phase!=Succeeded,status.phase!=Failed"
        fields = (f"spec.schedulerName={name},{living}" for name in schedulers)
        listings = (self._listed("pods for Slurm", paths.ALL_PODS, Pod, fields=each) for each in fields)
        listed = await asyncio.gather(*listings)
        return None if None in listed else tuple(pod for found in listed for pod in found or ())

    async def _listed(
        self, what: str, path: str, kind: type[U], *, labels: str = "", fields: str = ""
    ) -> list[U] | None:
        listing = self._kube.list_objects(path, kind, label_selector=labels, field_selector=fields, may_be_old=True)
        return await or_not(what, listing, self._unread)
