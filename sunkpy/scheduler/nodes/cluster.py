"""The scheduler's watches of the cluster: the pods that name the scheduler, the pods of other schedulers, nodes,
volumes and devices, and the slurmd pods, which show which Slurm node is on which Kubernetes node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.access import Namespace
from sunkpy.core.gang.limits import (
    Surroundings,
    TermPlace,
    avoid_nodes,
    depend_on,
    labels_asked,
    shortened,
    shut_out_from,
    spreads_by,
    terms_of,
    topics_of,
    touches,
)
from sunkpy.core.model import matching
from sunkpy.core.model.alike import one_of_each
from sunkpy.core.model.concerns import has_claimed_volumes, looks_at_neighbours, may_want_devices
from sunkpy.core.model.objects import KubeObject, Node, Pod, PodSpec
from sunkpy.core.model.slurmd import is_slurmd, slurm_node_of
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.core.placement.eligibility import Eligibility, eligible_nodes
from sunkpy.core.placement.needs import taken_without_job
from sunkpy.core.placement.spreading import labels_compared
from sunkpy.core.topology.places import path_told
from sunkpy.kube import paths
from sunkpy.kube.informer import Informer, Together
from sunkpy.kube.trim import trim_node, trim_slurmd
from sunkpy.runtime.groups import Watched
from sunkpy.runtime.verdicts import CachedVerdict, Verdicts
from sunkpy.scheduler.devices.watch import Devices
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.nodes.candidates import Candidates, Fullness, Held
from sunkpy.scheduler.nodes.others import pods_of_others
from sunkpy.scheduler.nodes.volumes import Volumes
from sunkpy.scheduler.owners.watch import OnUnreadable
from sunkpy.scheduler.pods.neighbours import Neighbours, PodsOn
from sunkpy.scheduler.pods.wake import Wake
from sunkpy.slurm import NodeCache


class Cluster:
    """All watches of the cluster that belong to one leader, and the answers that are worked out from them. `on_claim`
    is called with a pod if its claim for devices or for a volume has changed; `on_free_storage` is called with a pod if
    its volume can perhaps be made on other nodes now.
    """

    def __init__(
        self,
        leader: Leader,
        slurm_nodes: NodeCache,
        wake: Wake,
        *,
        on_claim: Callable[[Pod], None],
        on_free_storage: Callable[[Pod], None],
        on_unreadable: OnUnreadable,
    ) -> None:
        kube, settings = leader.kube, leader.settings
        self._settings, self._slurm_nodes, self._wake = settings, slurm_nodes, wake
        own_names = settings.scheduler_names
        self._counted, self._reads_namespaces = settings.counted, settings.reads_namespaces
        self._slurmd_of: Watched[str, Pod] = Watched(lambda pod: [slurm_node_of(pod)] if is_slurmd(pod) else [])
        self._slurmd_on: Watched[str, Pod] = Watched(lambda pod: [pod.spec.node_name] if is_slurmd(pod) else [])
        self._by_hostname: Watched[str, Node] = Watched(lambda node: [node.labels.get(HOSTNAME, "")])
        self.has_paths = bool(settings.switch_label)
        """True if the settings name a Node label for switches, or a slurmd pod has the syncer's annotation about them.
        """
        self._taken = Held(partial(taken_without_job, scheduler_names=own_names), self._taken_changed)
        self._takes_other = asyncio.Event()
        self._by_name: dict[str, Node] | None = None
        self.reach = 0
        """A number that grows when nodes or storage change so that pods may reach volumes from other nodes."""
        by_name = (f"spec.schedulerName={name}" for name in own_names)
        on_pod = partial(on_unreadable, "Pod")
        self.pods = Together(
            Informer(kube, paths.ALL_PODS, Pod, field_selector=each, keep=shortened, tell=on_pod, are_large=True)
            for each in by_name
        )
        self._eligible: Verdicts[PodSpec, Eligibility] = Verdicts(self._eligible_for)
        self._looking: Verdicts[Sequence[Pod], Mapping[str, str]] = Verdicts(self._avoided_by, topics=topics_of)
        self._shut_out: Verdicts[Sequence[Pod], Mapping[str, str]] = Verdicts(self._avoided_by, topics=topics_of)
        self._others = pods_of_others(kube, own_names, partial(on_unreadable, "pod of another scheduler"))
        everybody = self._everybody = Together((*self.pods.parts, self._others))
        self.neighbours = Neighbours(on_moved=self._pod_moved, on_asked=self._forget_avoided)
        for update in (self.neighbours.update, self._taken.update):
            everybody.add_handler(update)
        self.volumes = Volumes(
            kube,
            on_claim=on_claim,
            on_free_storage=on_free_storage,
            on_change=self._reach_changed,
            on_unreadable=on_unreadable,
        )
        self.nodes = Informer(kube, paths.NODES, Node, keep=trim_node, tell=partial(on_unreadable, "Node"))
        self.devices = Devices(
            kube, settings, self.nodes, on_unreadable, on_claim=on_claim, on_classes=self._classes_changed
        )
        labels = f"{names.LABEL_ROLE}={names.ROLE_COMPUTE},{names.LABEL_CLUSTER}={settings.cluster}"
        in_own = paths.pods(settings.namespace)
        self.slurmd_pods = Informer(kube, in_own, Pod, label_selector=labels, keep=trim_slurmd, tell=on_pod)
        self.candidates = Candidates(slurm_nodes, self.nodes, self.slurmd_pods, self._taken)
        self.fullness = Fullness(self.candidates.lasting, counted=self._counted, on_change=wake.neighbours.set)
        self._namespaces = Informer(kube, paths.NAMESPACES, KubeObject, tell=partial(on_unreadable, "Namespace"))
        self._listen()

    def _listen(self) -> None:
        self.pods.add_handler(self.fullness.held.update)
        self.pods.add_handler(self.volumes.pod_changed, of=lambda pod: has_claimed_volumes(pod.spec))
        self.pods.add_handler(self.devices.users.follow, of=lambda pod: may_want_devices(pod.spec))
        self.nodes.add_handler(self._node_changed)
        self.slurmd_pods.add_handler(self._slurmd_changed)
        self._namespaces.add_handler(self._namespace_changed)
        self._slurm_nodes.add_listener(self._slurm_nodes_changed)

    async def run(self) -> None:
        """Run all watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._watched():
                group.create_task(informer.run())
            group.create_task(self._slurm_nodes.run())
            group.create_task(self._others.run())
            group.create_task(self._follow_others())
            group.create_task(self.volumes.run())
            group.create_task(self.devices.run())

    async def synced(self) -> None:
        """Wait until the scheduler's pods, the nodes and the slurmd pods have been listed once; also the namespaces, if
        what their pods may ask for depends on them.
        """
        for informer in self._watched():
            await informer.synced.wait()

    def _watched(self) -> Iterable[Informer[Pod] | Informer[Node] | Informer[KubeObject]]:
        """Return the informers that must have listed their objects before the scheduler begins its work. Namespaces are
        among them only if the setting `scheduler.access` makes use of them.
        """
        namespaces = [self._namespaces] if self._reads_namespaces else []
        return (*self.pods.parts, self.nodes, self.slurmd_pods, *namespaces)

    def have_hooks(self) -> bool:
        """True if Prologs and Epilogs call the scheduler from all nodes. That is not so if Slurm has an EXTERNAL node,
        which has no slurmd, or if the nodes of Slurm have not been read.
        """
        observation = self._slurm_nodes.observation
        return observation is not None and not any("EXTERNAL" in each.state for each in observation.nodes.values())

    def are_pods_known(self) -> bool:
        """True if the watches can be trusted to show all pods that are on nodes: every watch of pods has been connected
        for `watch_settles_s` seconds.
        """
        settles_s = self._settings.times.watch_settles_s
        return all(part.connected and part.connected_s >= settles_s for part in self._everybody.parts)

    def namespace_of(self, name: str) -> Namespace | None:
        """Return a namespace with its labels and annotations, or with its name alone if the setting `scheduler.access`
        does not depend on them. None if the watch does not show the namespace yet.
        """
        if not self._reads_namespaces:
            return Namespace(name=name)
        found = self._namespaces.get("", name)
        return Namespace(name=name, labels=found.labels, annotations=found.annotations) if found is not None else None

    def node_behind(self, slurm_node: str) -> Node | None:
        """Return the Kubernetes node on which the slurmd pod of a Slurm node runs; None if it is unknown."""
        pod = self.slurmd_of(slurm_node)
        return self.nodes.get("", pod.spec.node_name) if pod is not None and pod.spec.node_name else None

    def slurmd_of(self, slurm_node: str) -> Pod | None:
        """Return the pod in which the slurmd of a Slurm node runs; None if there is none."""
        return _best(self._slurmd_of.of(slurm_node))

    def path_to(self, slurm_node: str) -> tuple[str, ...]:
        """Return the names of the switches above a Slurm node, the one with most nodes below it first; empty if they
        are unknown. They come from the Node label that the settings name. If the settings name none, they come from the
        annotation that the syncer writes on the slurmd pod.
        """
        if label := self._settings.switch_label:
            node = self.node_behind(slurm_node)
            return (node.labels[label],) if node is not None and node.labels.get(label) else ()
        pod = self.slurmd_of(slurm_node) if self.has_paths else None
        return path_told(pod.annotations.get(names.ANNOTATION_TOPOLOGY, "")) if pod is not None else ()

    def slurm_node_on(self, node: str) -> str:
        """Return the name of the Slurm node whose slurmd pod runs on a Kubernetes node; empty text if there is none."""
        pod = _best(self._slurmd_on.of(node))
        return slurm_node_of(pod) if pod is not None else ""

    def slurm_node_at(self, hostname: str) -> str:
        """Return the name of the Slurm node on the Kubernetes node whose label `kubernetes.io/hostname` has this value;
        empty text if there is none.
        """
        return next((self.slurm_node_on(node.name) for node in self._by_hostname.of(hostname)), "")

    def as_counted(self, pod: Pod) -> Pod:
        """Return a pod that was just read from the apiserver, but with its spec as the watch keeps it, if the watch
        shows the pod. There the requests of all containers have been added up: a pod may have ten thousand containers.
        """
        seen = self._everybody.get(*pod.key)
        return msgspec.structs.replace(pod, spec=seen.spec) if seen is not None and seen.uid == pod.uid else pod

    def eligibility(self, spec: PodSpec) -> CachedVerdict[PodSpec, Eligibility] | None:
        """Return the nodes on which a pod with this spec may run, as a cached answer; None until the nodes of Slurm
        have been read.
        """
        if self._slurm_nodes.observation is None:
            return None
        return self._eligible.of(_signature(spec), spec)

    def avoided_nodes(self, pods: Sequence[Pod]) -> CachedVerdict[Sequence[Pod], Mapping[str, str]]:
        """Return, as a cached answer, the Slurm nodes where one of these pods must not go because of affinity rules
        (its own or those of other pods), spreading or host ports, each with the reason.
        """
        is_looking = any(looks_at_neighbours(pod.spec) for pod in pods)
        if self.neighbours.is_open and not is_looking:
            return CachedVerdict({})
        kinds = tuple(one_of_each(pods, self._around_which))
        verdicts = self._looking if is_looking else self._shut_out
        return verdicts.of(msgspec.json.encode(list(map(self._around_which, kinds)), order="sorted"), kinds)

    def may_run_as_before(self, verdict: CachedVerdict[PodSpec, Eligibility]) -> bool:
        """True if a cached answer of `eligibility`, on which nodes a pod may run, would still be the same now."""
        return self._slurm_nodes.observation is not None and self._eligible.holds(verdict)

    def avoid_as_before(self, verdict: CachedVerdict[Sequence[Pod], Mapping[str, str]]) -> bool:
        """True if a cached answer of `avoided_nodes`, which nodes pods must avoid, would still be the same now. If the
        answer was given because no pod had such rules, it stays right as long as no pod on a node has anti-affinity.
        """
        if verdict.template is None:
            return self.neighbours.is_open
        return self._looking.holds(verdict) or self._shut_out.holds(verdict)

    def _eligible_for(self, spec: PodSpec) -> Eligibility:
        candidates = self.candidates.lasting()
        return eligible_nodes(spec, candidates, gpu_resources=self._counted, foreign=self.candidates.foreign)

    def _avoided_by(self, pods: Sequence[Pod]) -> Mapping[str, str]:
        return {self.slurm_node_on(node): why for node, why in avoid_nodes(pods, self.surroundings()).items()}

    def _pod_moved(self, pod: Pod) -> None:
        """Mark as outdated those cached answers to the question which nodes pods must avoid that may change because
        this pod came to a node, left one, or changed. Waiting pods without affinity rules of their own are concerned
        only if the pod has anti-affinity.
        """
        is_shutting_out = bool(pod.spec.anti_affinity_terms)
        if is_shutting_out:
            self._shut_out.doubt(lambda pods: depend_on(pods, pod), about=touches(pod))
        is_met = self._looking and self._looking.doubt(lambda pods: depend_on(pods, pod), about=touches(pod))
        if is_met or is_shutting_out:
            self._wake.neighbours.set()

    def _forget_avoided(self, place: TermPlace) -> None:
        """Drop the cached answers to the question which nodes the pods in this place (a namespace) must avoid. The
        anti-affinity of a pod on a node now depends on a further label of these pods, and the answers did not take this
        label into account.
        """
        self._looking.forget(shut_out_from(place))
        self._shut_out.forget(shut_out_from(place))

    def _around_which(self, pod: Pod) -> tuple[object, ...]:
        """Return everything about a pod that decides which nodes it must avoid because of other pods. Pods with equal
        values share one cached answer.

        Of the pod's labels only those are included that some affinity rule reads, because each Job, index and replica
        has labels of its own.
        """
        terms = terms_of(pod)
        asked = self.neighbours.labels_asked(pod).union(labels_asked(terms), labels_compared(pod))
        labels = {name: pod.labels[name] for name in sorted(asked & pod.labels.keys())}
        return (
            pod.metadata.namespace,
            labels,
            terms,
            pod.spec.anti_affinity_terms,
            pod.spec.host_ports,
            spreads_by(pod),
        )

    def surroundings(self, *, listed: PodsOn | None = None) -> Surroundings:
        """Return which pods are on which node, as one object for checks of affinity rules and host ports. `listed`: for
        some nodes, all pods that the apiserver has just shown there; they replace what the watches show of these nodes.
        """
        if self._by_name is None:
            self._by_name = {node.name: node for node in self.nodes.values()}
        around = self.neighbours.around(self._by_name, listed=listed)
        return msgspec.structs.replace(around, is_usable=lambda name: bool(self.slurm_node_on(name)))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self._by_name = None
        self._by_hostname.follow(old, new)
        if old is None or new is None or (old.labels, old.spec.taints) != (new.labels, new.spec.taints):
            self._doubt_avoided()
        if old is None or new is None or _facts(old) != _facts(new):
            self._invalidate()

    def _namespace_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        is_same = old is not None and new is not None and (old.labels, old.annotations) == (new.labels, new.annotations)
        changed = new or old
        if changed is not None and not is_same:
            self._wake.namespace_changed(changed.name)

    def _slurmd_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._slurmd_of.follow(old, new)
        self._slurmd_on.follow(old, new)
        self.has_paths |= new is not None and names.ANNOTATION_TOPOLOGY in new.annotations
        if _is_registered(old) != _is_registered(new):
            self._slurm_nodes.hasten()
        if old is None or new is None or old.spec.node_name != new.spec.node_name:
            self._doubt_avoided()
            self._invalidate()

    def _doubt_avoided(self) -> None:
        self._looking.doubt()
        self._shut_out.doubt()

    def _slurm_nodes_changed(self, changed: frozenset[str]) -> None:
        if self.candidates.differ(changed):
            self._invalidate()

    def _taken_changed(self, node: str) -> None:
        if self.slurm_node_on(node):
            self._takes_other.set()

    async def _follow_others(self) -> None:
        """Whenever pods without a Slurm job take more or less of a node, mark as outdated what was worked out about
        nodes. Wait `occupancy_each_s` seconds between two such times, because each makes the scheduler look at all
        waiting gangs again.
        """
        while True:
            await self._takes_other.wait()
            self._takes_other.clear()
            self._doubt_nodes()
            await asyncio.sleep(self._settings.times.occupancy_each_s)

    def _classes_changed(self) -> None:
        self._eligible.forget()
        self._invalidate()

    def _reach_changed(self) -> None:
        self.reach += 1
        self._wake.nodes.set()

    def _invalidate(self) -> None:
        """Mark as outdated all that was worked out about nodes, because nodes came, went or changed; the nodes from
        which volumes can be reached may also have changed.
        """
        self.reach += 1
        self._doubt_nodes()

    def _doubt_nodes(self) -> None:
        """Mark as outdated the cached answers about nodes, because nodes or what is left on them have changed, and have
        the waiting gangs looked at again.
        """
        self.candidates.invalidate()
        self.devices.doubt_resources()
        self._eligible.doubt()
        self.fullness.doubt()
        self._wake.nodes.set()


def _best(slurmds: Iterable[Pod]) -> Pod | None:
    """Return the slurmd pod to use among these slurmd pods of one node: if possible one that neither has finished nor
    is being deleted. None if there are no pods.
    """
    return min(slurmds, key=lambda pod: (pod.is_finished, pod.is_deleting), default=None)


def _is_registered(pod: Pod | None) -> bool:
    return pod is not None and pod.is_condition_true(names.READINESS_GATE)


def _signature(spec: PodSpec) -> bytes:
    requests = sorted(matching.pod_requests(spec).items())
    return msgspec.json.encode((spec.node_selector, spec.affinity, spec.tolerations, requests), order="sorted")


def _facts(node: Node) -> tuple[object, ...]:
    return (node.labels, node.spec.taints, node.status.allocatable)
