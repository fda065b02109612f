"""Reads, with the person's rights, what the scheduler decides on: its settings, nodes, other pods and volumes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Iterable
from functools import cached_property
from typing import Final, TypeVar

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.access import Namespace, restricted, rule_for
from sunkpy.core.gang.families import FAMILIES, Families
from sunkpy.core.gang.families.declaration import LARGEST_GANG
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.limits import Surroundings, avoid_nodes, deciding_specs, within_limits
from sunkpy.core.gang.seating.named_nodes import eligible_named_nodes
from sunkpy.core.model.devices import CLAIMED, DEVICE_CLASS
from sunkpy.core.model.matching import containers_of
from sunkpy.core.model.objects import KubeObject, Node, Pod, PodSpec
from sunkpy.core.model.slurmd import is_slurmd, slurm_node_of
from sunkpy.core.model.storage import Claim, Driver, FreeStorage, StorageClass, Volume
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.core.placement.eligibility import Candidate, Eligibility, eligible_nodes, in_common, minus
from sunkpy.core.placement.free_storage import FreeRoom
from sunkpy.core.placement.needs import taken_by_others
from sunkpy.core.placement.volumes import Storage, find_user, within_reach
from sunkpy.core.topology.places import path_told
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import Forbidden, NotFound, NotServed
from sunkpy.scheduler.settings import SchedulerSettings

T = TypeVar("T")

_CONFIG_MAPS: Final = "/api/v1/configmaps"
_OF_SCHEDULERS: Final = "app.kubernetes.io/name=slurm,app.kubernetes.io/component=scheduler"
_OF_CLAIMS: Final = (CLAIMED, DEVICE_CLASS)
_GPUS: Final = {"nvidia.com/gpu": "gpu"}


class _ConfigMap(KubeObject, frozen=True, kw_only=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class ReadableCluster(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What the person may read of all that the scheduler decides on for the pods of one namespace.

    `sees_all_pods`: the person may see the names of pods in all namespaces. If not, reasons name only pods of this
    namespace. `unread`: what could not be read, and why; a field that may be None is None then. `known_names`: the
    `schedulerName`s that belong to this scheduler; if no scheduler has the name that was asked for, those of all
    schedulers. `others`: the pods of other schedulers that have not ended. `placed`: the pods of this scheduler that
    are on nodes. `storage`: the volumes, if the pods have any.

    A look-up table of nodes or slurmd pods is made when it is first needed: a pool may have 10,000 of them, and each
    node of a large job is looked up.
    """

    sees_all_pods: bool
    settings: SchedulerSettings | None = None
    known_names: frozenset[str] = frozenset()
    nodes: tuple[Node, ...] | None = None
    slurmd_pods: tuple[Pod, ...] | None = None
    others: tuple[Pod, ...] = ()
    placed: tuple[Pod, ...] = ()
    namespace: Namespace | None = None
    storage: Storage | None = None
    unread: tuple[str, ...] = ()

    @property
    def families(self) -> Families:
        """The families of workloads that the scheduler knows, by its settings."""
        return self.settings.families if self.settings is not None else FAMILIES

    @property
    def largest_gang(self) -> int:
        """The most pods that one gang may have, by the scheduler's settings."""
        return self.settings.largest_gang if self.settings is not None else LARGEST_GANG

    @property
    def policy(self) -> Policy:
        """The scheduler's settings that decisions need; the chart's defaults if the settings could not be read."""
        if self.settings is None:
            return Policy(gpu_resources=_GPUS)
        return self.settings.policy

    @cached_property
    def states(self) -> dict[str, str]:
        """Slurm node → its state, as the syncer wrote it on the slurmd pod."""
        pods = self.slurmd_pods or ()
        return {slurm_node_of(pod): pod.annotations.get(names.ANNOTATION_SLURM_STATE, "") for pod in pods}

    def slurm_node_of(self, pod: Pod) -> str:
        """Return the name of the Slurm node on the pod's Kubernetes node, from the slurmd pod there, or else from the
        annotation of the pod; empty if neither says it.
        """
        on_node = self._slurm_nodes_on.get(pod.spec.node_name)
        return on_node[0] if on_node else pod.annotations.get(names.ANNOTATION_PLACED_ON, "")

    def slurm_node_at(self, hostname: str) -> str:
        """Return the Slurm node of the Node whose label `kubernetes.io/hostname` has this value; empty if none has."""
        return self._slurm_node_at.get(hostname, "")

    def node_behind(self, slurm_node: str) -> Node | None:
        """Return the Node on which the slurmd pod of this Slurm node runs; None if there is none, or it could not be
        read.
        """
        return self._node_behind.get(slurm_node)

    def path_to(self, slurm_node: str) -> tuple[str, ...]:
        """Return the switches above a Slurm node, widest first, as the scheduler sees them; empty if unknown."""
        if label := (self.settings.switch_label if self.settings is not None else ""):
            node = self.node_behind(slurm_node)
            return (node.labels[label],) if node is not None and node.labels.get(label) else ()
        return path_told(self.places.get(slurm_node, ""))

    @cached_property
    def places(self) -> dict[str, str]:
        """Slurm node → its place in the network, as the syncer wrote it on the slurmd pod."""
        pods = self.slurmd_pods or ()
        return {slurm_node_of(pod): pod.annotations.get(names.ANNOTATION_TOPOLOGY, "") for pod in pods}

    @cached_property
    def _slurm_nodes_on(self) -> dict[str, list[str]]:
        """Kubernetes node → the Slurm nodes of the slurmd pods there: mostly one, and two while a pod is replaced."""
        found: dict[str, list[str]] = {}
        for pod in self.slurmd_pods or ():
            found.setdefault(pod.spec.node_name, []).append(slurm_node_of(pod))
        return found

    @cached_property
    def _node_behind(self) -> dict[str, Node]:
        """Slurm node → the Node on which its slurmd pod runs."""
        found: dict[str, Node] = {}
        for node in self.nodes or ():
            for slurm_node in self._slurm_nodes_on.get(node.name, ()):
                found.setdefault(slurm_node, node)
        return found

    @cached_property
    def _slurm_node_at(self) -> dict[str, str]:
        """Value of the label `kubernetes.io/hostname` → the Slurm node on the Node that has it."""
        found: dict[str, str] = {}
        for node in self.nodes or ():
            if (on_node := self._slurm_nodes_on.get(node.name)) and (hostname := node.labels.get(HOSTNAME)):
                found.setdefault(hostname, on_node[0])
        return found

    def restricted(self, gang: Gang) -> Gang:
        """Return the gang with the restrictions of its namespace (`scheduler.access`), as far as they are known."""
        if self.settings is None or self.namespace is None:
            return gang
        rule = rule_for(self.settings.access, self.namespace, annotated=self.settings.annotated_access)
        return restricted(gang, rule, default_partition=self.settings.default_partition)

    def eligibility(self, specs: Iterable[PodSpec]) -> Eligibility | None:
        """Return the nodes that are eligible for every one of these pod specs; None if nodes or slurmd pods could not
        be read.
        """
        if self.nodes is None or self.slurmd_pods is None:
            return None
        candidates = self._candidates
        unlike = {msgspec.json.encode(msgspec.structs.replace(spec, node_name="")): spec for spec in specs}
        each = (eligible_nodes(spec, candidates, gpu_resources=self.policy.gpu_resources) for spec in unlike.values())
        return in_common(tuple(each))

    def eligibility_of(self, gang: Gang) -> Eligibility | None:
        """Return the nodes on which the job of a gang may run; None if nodes or slurmd pods could not be read."""
        found, pods = self.eligibility(deciding_specs(gang)), [pod for pod in gang.first_wave if pod.volume_claims]
        if found is not None and self.storage is not None and pods:
            may_grow = self.policy.may_grow(gang.options.partition)
            found = within_reach(found, pods, self._candidates, self.storage, may_grow=may_grow)
        return minus(found, self._avoided_by(gang)) if found is not None else None

    def within_limits(self, gang: Gang) -> Gang:
        """Return the gang with the limits that follow from the ports, affinity and devices of its pods.

        Gangs with ResourceClaims or device classes stay as they are, because their limits cannot be read from here.
        """
        specs = [pod.spec for pod in gang.members]
        wanted = (name for spec in specs for each in containers_of(spec) for name in each.resources.requests)
        if any(spec.resource_claims for spec in specs) or any(name.startswith(_OF_CLAIMS) for name in wanted):
            return gang
        handed_out = self.settings.handed_out if self.settings is not None else ""
        return within_limits(gang, self.policy.gpu_resources, plugin_resource=handed_out)

    def _avoided_by(self, gang: Gang) -> dict[str, str]:
        """Return Slurm node → why pod affinity or anti-affinity keeps the gang away from it: because of a pod that is
        there, or because of a pod that is missing there.
        """
        everyone = [pod for pod in (*self.others, *self.placed) if pod.spec.node_name]
        around = Surroundings.of({node.name: node for node in self.nodes or ()}, everyone)
        waiting = [pod for pod in gang.first_wave if not pod.spec.node_name]
        avoided = avoid_nodes(waiting, around, but={pod.uid for pod in gang.members}, names_all=self.sees_all_pods)
        slurm_nodes = {pod.spec.node_name: slurm_node_of(pod) for pod in self.slurmd_pods or ()}
        return {slurm_nodes[node]: why for node, why in avoided.items() if node in slurm_nodes}

    def named_nodes(self, gang: Gang) -> tuple[dict[str, str], Eligibility | None]:
        """Return pod uid → the Slurm node that the pod names (nodeSelector with a hostname), and whether the gang's job
        may run on these nodes. Return an empty dict and None if pods name no nodes, or if their eligible nodes are not
        known.
        """
        named = {uid: self.slurm_node_at(host) for uid, host in gang.named_hosts.items()}
        if not named or self.nodes is None or self.slurmd_pods is None:
            return {}, None
        there = {candidate.slurm_node: candidate for candidate in self._candidates}
        gpus = self.policy.gpu_resources
        each = {
            pod.uid: eligible_nodes(pod.spec, [there[name]] if (name := named[pod.uid]) else [], gpu_resources=gpus)
            for pod in gang.members
        }
        return named, eligible_named_nodes(gang, named, each)

    @cached_property
    def _candidates(self) -> list[Candidate]:
        own = self.settings.scheduler_names if self.settings is not None else ()
        on_node: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in self.others:
            on_node[pod.spec.node_name].append(pod)
        by_name = {node.name: node for node in self.nodes or ()}
        return [
            Candidate(
                slurm_node=slurm_node_of(pod), node=node, taken=taken_by_others(on_node[node.name], scheduler_names=own)
            )
            for pod in self.slurmd_pods or ()
            if (node := by_name.get(pod.spec.node_name)) is not None
        ]


class ClusterReader:
    """Reads a `ReadableCluster`, and notes what the person may not read. `settings`: the scheduler's, if known.

    `sees_all_pods`: the person may see the names of pods in all namespaces. The connection to the apiserver may have
    more rights than the person.
    """

    def __init__(self, kube: Kube, settings: SchedulerSettings | None = None, *, sees_all_pods: bool) -> None:
        self._kube = kube
        self._sees_all_pods = sees_all_pods
        self._at_hand = settings
        self._unread: list[str] = []

    async def around(self, namespace: str, scheduler: str, pods: Iterable[Pod]) -> ReadableCluster:
        """Read the cluster as the scheduler with this name sees it, for the pods of one namespace.

        Args:
            namespace: the namespace of the pods.
            scheduler: the `schedulerName` of the pods.
            pods: all pods of the namespace.

        Raises:
            KubeError: the apiserver did not answer.
        """
        pods, known = tuple(pods), await read_settings(self._kube, self._at_hand, self._unread)
        settings = next((each for each in known if scheduler in each.scheduler_names), None)
        if known and settings is None:
            return ReadableCluster(
                sees_all_pods=self._sees_all_pods,
                known_names=frozenset(name for each in known for name in each.scheduler_names),
            )
        nodes = await self._or_not("nodes", self._kube.list_objects(paths.NODES, Node))
        slurmd = await self._slurmd_pods(settings)
        not_ours = f"spec.schedulerName!={scheduler},status.phase!=Succeeded,status.phase!=Failed"
        others = await self._or_not(
            "what pods of others take of the nodes",
            self._kube.list_objects(paths.ALL_PODS, Pod, field_selector=not_ours),
        )
        own = f"spec.schedulerName={scheduler},spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        placed = None
        if others is not None:
            placed = await self._or_not(
                "pods on nodes", self._kube.list_objects(paths.ALL_PODS, Pod, field_selector=own)
            )
        return ReadableCluster(
            sees_all_pods=self._sees_all_pods,
            settings=settings,
            known_names=frozenset(settings.scheduler_names if settings is not None else (scheduler,)),
            nodes=_tuple(nodes),
            slurmd_pods=_tuple(slurmd),
            others=_tuple(others) or (),
            placed=_tuple(placed) or (),
            namespace=await self._namespace(namespace, settings),
            storage=await self._storage(namespace, pods) if any(pod.volume_claims for pod in pods) else None,
            unread=tuple(self._unread),
        )

    async def _slurmd_pods(self, settings: SchedulerSettings | None) -> list[Pod] | None:
        labels = f"{names.LABEL_ROLE}={names.ROLE_COMPUTE}"
        if settings is not None:
            labels += f",{names.LABEL_CLUSTER}={settings.cluster}"
        where = paths.pods(settings.namespace) if settings is not None else paths.ALL_PODS
        found = await self._or_not("slurmd pods", self._kube.list_objects(where, Pod, label_selector=labels))
        return [pod for pod in found if is_slurmd(pod)] if found is not None else None

    async def _storage(self, namespace: str, pods: Iterable[Pod]) -> Storage | None:
        """Read claims, volumes, storage classes, drivers and free storage. None if one of the first three could not be
        read: then the explanation ignores volumes.
        """
        claims = await self._or_not("claims", self._kube.list_objects(paths.claims(namespace), Claim))
        volumes = await self._or_not("volumes", self._kube.list_objects(paths.VOLUMES, Volume))
        classes = await self._or_not("storage classes", self._kube.list_objects(paths.STORAGE_CLASSES, StorageClass))
        drivers = await self._or_not("storage drivers", self._kube.list_objects(paths.STORAGE_DRIVERS, Driver))
        free = await self._or_not("free storage", self._kube.list_objects(paths.FREE_STORAGE, FreeStorage))
        if claims is None or volumes is None or classes is None:
            return None
        room = FreeRoom()
        for each in free or ():
            room.follow(None, each)
        return Storage(
            claim={each.key: each for each in claims}.get,
            volume={each.name: each for each in volumes}.get,
            storage_class={each.name: each for each in classes}.get,
            user_of=lambda claim, pod: find_user(claim, pod, pods),
            driver={each.name: each for each in drivers or () if free is not None}.get,
            free=room,
        )

    async def _namespace(self, name: str, settings: SchedulerSettings | None) -> Namespace | None:
        """Read labels and annotations of the namespace, if the settings need them; None if the person may not. The
        namespace is read from a list, as the scheduler does: a person may be allowed to list namespaces, but not to get
        one.
        """
        if settings is None or not settings.reads_namespaces:
            return Namespace(name=name)
        listing = self._kube.list_objects(paths.NAMESPACES, KubeObject, field_selector=f"metadata.name={name}")
        found = await self._or_not(f"labels and annotations of namespace {name}", listing)
        if found is None:
            return None
        known = (Namespace(name=name, labels=each.labels, annotations=each.annotations) for each in found)
        return next(known, Namespace(name=name))

    async def _or_not(self, what: str, answer: Awaitable[T]) -> T | None:
        return await or_not(what, answer, self._unread)


async def read_settings(kube: Kube, at_hand: SchedulerSettings | None, unread: list[str]) -> list[SchedulerSettings]:
    """Return the settings `at_hand`; if they are None, the settings of all schedulers, from their ConfigMaps.

    What the person may not read, or what is no valid settings file, is added to `unread`.
    """
    if at_hand is not None:
        return [at_hand]
    listing = kube.list_objects(_CONFIG_MAPS, _ConfigMap, label_selector=_OF_SCHEDULERS)
    found = []
    listed = await or_not("settings of the scheduler (its names, access, workloads)", listing, unread)
    if listed == []:
        unread.append(f"settings of the scheduler: no ConfigMap has the labels {_OF_SCHEDULERS}")
    for each in listed or ():
        try:
            found.append(msgspec.yaml.decode(each.data.get("config.yaml", ""), type=SchedulerSettings))
        except (msgspec.DecodeError, ValueError) as error:
            unread.append(f"settings of the scheduler in {'/'.join(each.key)}: {error}")
    return found


async def or_not(what: str, answer: Awaitable[T], unread: list[str]) -> T | None:
    """Await and return the answer. If the person may not read it, or it does not exist, return None and add a line to
    `unread`.
    """
    try:
        return await answer
    except (Forbidden, NotFound, NotServed) as error:
        unread.append(f"{what}: {error.message}")
        return None


def _tuple(found: list[T] | None) -> tuple[T, ...] | None:
    return tuple(found) if found is not None else None
