"""The cluster as the scheduler watches it: its own pods, the nodes, and the slurmd pods that tie both worlds."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial

import msgspec
import structlog

from sunkpy.core import names
from sunkpy.core.gang.access import Namespace
from sunkpy.core.gang.limits import Surroundings
from sunkpy.core.model.objects import KubeObject, Node, Pod, PodSpec
from sunkpy.core.model.slurmd import is_slurmd
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.core.placement.eligibility import Candidate
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer, Together
from sunkpy.scheduler.judgements import Judgement, Judgements
from sunkpy.scheduler.neighbours import Neighbours, PodsOn
from sunkpy.scheduler.occupancy import Occupancy
from sunkpy.scheduler.owner_watch import NoteOdd
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.scheduler.vanished import Vanished
from sunkpy.scheduler.volumes import Volumes
from sunkpy.slurm import NodeCache

Changed = Callable[[], None]


class _Candidates:
    """As they were reckoned last, by lasting facts and as Slurm said then; kept, for they know their sums."""

    def __init__(self) -> None:
        self.lasting: list[Candidate] = []
        self.are_fresh = False
        self.now: list[Candidate] = []


class Cluster:
    """Informers of one leader. `on_nodes` is called when the nodes that pods may use have changed, `on_namespace` when
    what the pods of a namespace may ask for may have.
    """

    def __init__(
        self,
        kube: Kube,
        slurm_nodes: NodeCache,
        settings: SchedulerSettings,
        *,
        on_nodes: Changed,
        on_namespace: Callable[[str], None],
        note_odd: NoteOdd,
    ) -> None:
        self._settings, self.namespace = settings, settings.namespace
        self._slurm_nodes = slurm_nodes
        self._on_nodes, self._on_namespace = on_nodes, on_namespace
        self._log = structlog.get_logger("cluster")
        self._judgements = Judgements(self.all_candidates, gpu_resources=settings.gpu_resources)
        self._by_slurm_node: dict[str, dict[str, Pod]] = defaultdict(dict)
        self._by_node: dict[str, dict[str, Pod]] = defaultdict(dict)
        self._candidates = _Candidates()
        self._by_name: dict[str, Node] | None = None
        self._by_hostname: dict[str, str] | None = None
        by_name = (f"spec.schedulerName={name}" for name in settings.scheduler_names)
        odd_pod = partial(note_odd, "Pod")
        self.pods = Together(Informer(kube, paths.ALL_PODS, Pod, field_selector=ours, tell=odd_pod) for ours in by_name)
        self.neighbours = Neighbours(own=self.pods.values, scheduler_names=settings.scheduler_names)
        self.pods.add_handler(self.neighbours.update)
        self.vanished = Vanished()
        self.pods.add_handler(self.vanished.update)
        self.occupancy = Occupancy(
            kube,
            scheduler_names=settings.scheduler_names,
            own=self.pods.values,
            neighbours=self.neighbours,
            on_change=self._invalidate,
        )
        self.volumes = Volumes(kube, on_change=on_nodes, note_odd=note_odd)
        self.nodes = Informer(kube, paths.NODES, Node, tell=partial(note_odd, "Node"))
        labels = f"{names.LABEL_ROLE}={names.ROLE_COMPUTE},{names.LABEL_CLUSTER}={settings.cluster}"
        self.slurmd_pods = Informer(kube, paths.pods(settings.namespace), Pod, label_selector=labels, tell=odd_pod)
        self._namespaces = Informer(kube, paths.NAMESPACES, KubeObject, tell=partial(note_odd, "Namespace"))
        self._listen()

    def _listen(self) -> None:
        self.nodes.add_handler(self._node_changed)
        self.slurmd_pods.add_handler(self._slurmd_changed)
        self._namespaces.add_handler(self._namespace_changed)
        self._slurm_nodes.add_listener(self._slurm_nodes_changed)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._watched():
                group.create_task(informer.run())
            group.create_task(self._slurm_nodes.run())
            group.create_task(self.occupancy.run())
            group.create_task(self.volumes.run())

    async def synced(self) -> None:
        """Wait until every collection has been listed once."""
        for informer in self._watched():
            await informer.synced.wait()

    def _watched(self) -> Iterable[Informer[Pod] | Informer[Node] | Informer[KubeObject]]:
        """Namespaces only where the admin's map looks at their labels or annotations."""
        yield from self.pods.parts
        yield from (self.nodes, self.slurmd_pods)
        if self._settings.reads_namespaces:
            yield self._namespaces

    def namespace_of(self, name: str) -> Namespace | None:
        """What the admin's map looks at; None when a pod was seen before its namespace."""
        if not self._settings.reads_namespaces:
            return Namespace(name=name)
        found = self._namespaces.get("", name)
        return Namespace(name=name, labels=found.labels, annotations=found.annotations) if found is not None else None

    def node_behind(self, slurm_node: str) -> Node | None:
        """The Kubernetes node on which the slurmd of a Slurm node runs."""
        pod = self.slurmd_pod(slurm_node)
        return self.nodes.get("", pod.spec.node_name) if pod is not None and pod.spec.node_name else None

    def slurm_node_on(self, node: str) -> str:
        """The Slurm node whose slurmd runs on a Kubernetes node; empty when there is none."""
        pod = _best(self._by_node.get(node, {}).values())
        return pod.labels.get(names.LABEL_SLURM_NODE, "") if pod is not None else ""

    def slurm_node_at(self, hostname: str) -> str:
        """The Slurm node on the Kubernetes node with this label `kubernetes.io/hostname`; empty when there is none."""
        if self._by_hostname is None:
            self._by_hostname = {node.labels.get(HOSTNAME, ""): node.name for node in self.nodes.values()}
        return self.slurm_node_on(self._by_hostname.get(hostname, ""))

    def slurmd_pod(self, slurm_node: str) -> Pod | None:
        """The slurmd pod of a Slurm node; of several, one that is not going away."""
        return _best(self._by_slurm_node.get(slurm_node, {}).values())

    def _index(self, old: Pod | None, new: Pod | None) -> None:
        """Slurmd pods by Slurm node, and by Kubernetes node."""
        for pod, is_there in ((old, False), (new, True)):
            if pod is None:
                continue
            name = pod.labels.get(names.LABEL_SLURM_NODE, "")
            for index, key in ((self._by_slurm_node, name), (self._by_node, pod.spec.node_name)):
                if is_there and is_slurmd(pod):
                    index[key][pod.uid] = pod
                else:
                    index[key].pop(pod.uid, None)
                if not index[key]:
                    del index[key]

    def judge(self, spec: PodSpec) -> Judgement | None:
        """Where a pod may run; None while Slurm's nodes have not been read."""
        return self._judgements.of(spec) if self._slurm_nodes.observation is not None else None

    def still_holds(self, judgement: Judgement) -> bool:
        """Nothing has changed for pods that were judged so."""
        return self._slurm_nodes.observation is not None and self._judgements.still_holds(judgement)

    def surroundings(self, *, listed: PodsOn | None = None) -> Surroundings:
        """Who is on which node; `listed`: all pods of some nodes, as they were just read."""
        if self._by_name is None:
            self._by_name = {node.name: node for node in self.nodes.values()}
        return self.neighbours.around(self._by_name, listed=listed)

    def candidates(self) -> list[Candidate]:
        """All nodes that Slurm knows, with what it says of them now; none while they have not been read."""
        observation = self._slurm_nodes.observation
        if observation is None:
            return []
        found = (_as_now(c, observation.nodes.get(c.slurm_node)) for c in self.all_candidates())
        self._candidates.now = _reused(found, self._candidates.now)
        return self._candidates.now

    def all_candidates(self) -> list[Candidate]:
        """All nodes that Slurm knows, with what it said of them when they last changed lastingly."""
        if not self._candidates.are_fresh:
            found = (c for pod in filter(is_slurmd, self.slurmd_pods.values()) if (c := self._candidate(pod)))
            self._candidates.lasting = _reused(found, self._candidates.lasting)
            self._candidates.are_fresh = True
        return self._candidates.lasting

    def _candidate(self, pod: Pod) -> Candidate | None:
        """Only nodes that Slurm knows: it refuses a job that excludes an unknown one."""
        assert self._slurm_nodes.observation is not None
        name = pod.labels.get(names.LABEL_SLURM_NODE, "")
        node = self.nodes.get("", pod.spec.node_name)
        slurm = self._slurm_nodes.observation.nodes.get(name)
        if node is None or slurm is None:
            return None
        nodeset = pod.labels.get(names.LABEL_NODESET, "")
        taken = self.occupancy.taken(node.name)
        return Candidate(slurm_node=name, node=node, slurm=slurm, taken=taken, nodeset=nodeset)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self._by_name = self._by_hostname = None
        if old is None or new is None or _facts(old) != _facts(new):
            self._invalidate()

    def _namespace_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        is_same = old is not None and new is not None and (old.labels, old.annotations) == (new.labels, new.annotations)
        if new is not None and not is_same:
            self._on_namespace(new.name)

    def _slurmd_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._index(old, new)
        if _is_registered(old) != _is_registered(new):
            self._slurm_nodes.hasten()
        if old is None or new is None or old.spec.node_name != new.spec.node_name:
            self._invalidate()

    def _slurm_nodes_changed(self, changed: frozenset[str]) -> None:
        observation = self._slurm_nodes.observation
        if observation is None or not changed:
            return
        judged = self._candidates.lasting if self._candidates.are_fresh else ()
        known = {candidate.slurm_node: candidate.slurm for candidate in judged}
        if any(_size(observation.nodes.get(name)) != _size(known.get(name)) for name in changed):
            self._invalidate()

    def _invalidate(self) -> None:
        self._candidates.are_fresh = False
        self._judgements.nodes_changed()
        self._on_nodes()


def _is_registered(pod: Pod | None) -> bool:
    return pod is not None and pod.is_condition_true(names.READINESS_GATE)


def _best(pods: Iterable[Pod]) -> Pod | None:
    return min(pods, key=lambda pod: (pod.is_finished, pod.is_deleting), default=None)


def _as_now(candidate: Candidate, slurm: SlurmNode | None) -> Candidate:
    return candidate if slurm is candidate.slurm else msgspec.structs.replace(candidate, slurm=slurm)


def _reused(found: Iterable[Candidate], before: Iterable[Candidate]) -> list[Candidate]:
    """Where nothing has changed the candidate of before, which knows its sums already."""
    known = {candidate.slurm_node: candidate for candidate in before}
    return [old if (old := known.get(new.slurm_node)) is not None and old == new else new for new in found]


def _facts(node: Node) -> tuple[object, ...]:
    return (node.labels, node.spec.taints, node.status.allocatable)


def _size(node: SlurmNode | None) -> tuple[object, ...]:
    return () if node is None else (node.cpus, node.memory_mib, node.gres, node.features)
