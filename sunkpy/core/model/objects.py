"""The parts of Kubernetes objects that decisions read, as frozen values decoded from the wire by msgspec.

Unknown fields are skipped without being allocated: a store of thousands of pods stays small, and a newer apiserver
does not break the decode. Quantities stay strings here; `sunkpy.core.model.quantity` turns them into numbers.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")

Key = tuple[str, str]
"""Namespace and name of an object; the namespace is empty for cluster-scoped ones."""


class Wire(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True, gc=False):
    """The base of values whose field names are camelCase in JSON.

    They are decoded from text and never change, so they have no reference cycles, and the garbage collector skips them.
    """


class OwnerReference(Wire, frozen=True, kw_only=True):
    """The object that made or owns another. The one with `controller` is responsible for it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(Wire, frozen=True, kw_only=True):
    """Metadata of any object. Times are RFC 3339 strings as the apiserver sends them."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class KubeObject(Wire, frozen=True, kw_only=True):
    """A Kubernetes object of any kind, with its metadata."""

    metadata: Meta = Meta()

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        return (self.metadata.namespace, self.metadata.name)

    @property
    def name(self) -> str:
        """The object's name, unique for its kind within the namespace."""
        return self.metadata.name

    @property
    def uid(self) -> str:
        """The object's uid. An object that is made again under the same name has another uid."""
        return self.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        """The object's labels; an empty dict if it has none."""
        return self.metadata.labels

    @property
    def annotations(self) -> dict[str, str]:
        """The object's annotations; an empty dict if it has none."""
        return self.metadata.annotations

    @property
    def is_deleting(self) -> bool:
        """True if somebody has deleted the object, and it is still there."""
        return self.metadata.deletion_timestamp is not None


def shown_to(namespace: str, other: KubeObject, *, kind: str = "pod") -> str:
    """Return the words for an object in texts that everybody in a namespace may read, such as Events: its namespace and
    name, or no name if it is in another namespace, because these people may not see it there.
    """
    is_own = other.metadata.namespace == namespace
    return f"{kind} {'/'.join(other.key)}" if is_own else f"a {kind} of another namespace"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of Kubernetes object, in any version. `group` is empty for the core API, such as Pod."""

    group: str
    kind: str


class Owner(KubeObject, frozen=True, kw_only=True):
    """An object of any kind that makes or groups pods. `spec` and `status` are its JSON, not yet decoded."""

    api_version: str = ""
    kind: str = ""
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")

    @property
    def is_a(self) -> Kind:
        """The kind of the object, whatever its version."""
        group, _, version = self.api_version.rpartition("/")
        return Kind(group=group if version else "", kind=self.kind)

    def spec_as(self, type_: type[T]) -> T:
        """Return the spec, decoded as `type_`.

        Raises:
            msgspec.ValidationError: the spec does not have the form of `type_`.
        """
        return msgspec.json.decode(self.spec, type=type_)

    def status_as(self, type_: type[T]) -> T:
        """Return the status, decoded as `type_`.

        Raises:
            msgspec.ValidationError: the status does not have the form of `type_`.
        """
        return msgspec.json.decode(self.status, type=type_)


class OddOwner(Owner, frozen=True, kw_only=True):
    """An object that makes or groups pods, and whose spec and status cannot be read; `why` says why. Both are empty
    here.
    """

    why: str


class Condition(Wire, frozen=True, kw_only=True):
    """A condition of a Kubernetes object; `status` is the text True, False or Unknown."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None


class Toleration(Wire, frozen=True, kw_only=True):
    """A toleration of a pod. An empty key with `Exists` covers every key, and an empty effect covers every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Taint(Wire, frozen=True, kw_only=True):
    """A reason for pods to stay away from a node."""

    key: str
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class SelectorRequirement(Wire, frozen=True, kw_only=True):
    """One line of a node selector or label selector. `values` is a set, because there may be thousands, and each node
    is looked up in it.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()


class NodeSelectorTerm(Wire, frozen=True, kw_only=True):
    """A list of expressions about a node, all of which must match."""

    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(Wire, frozen=True, kw_only=True):
    """Terms of a node selector, of which one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(Wire, frozen=True, kw_only=True):
    """The affinity of a pod to nodes. Only the required part counts."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class LabelSelector(Wire, frozen=True, kw_only=True):
    """Labels and expressions, all of which must match. An empty selector matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorRequirement, ...] = ()


class PodAffinityTerm(Wire, frozen=True, kw_only=True):
    """The pods near which, or away from which, a pod must be: those that `label_selector` matches; none if it is
    missing. Two nodes are near each other if they have the same value of the label `topology_key`.
    """

    label_selector: LabelSelector | None = None
    topology_key: str = ""
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class SpreadConstraint(Wire, frozen=True, kw_only=True):
    """How unevenly pods like this one may spread over the values of the node label `topology_key`."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


class PodAffinity(Wire, frozen=True, kw_only=True):
    """The affinity of a pod to other pods. Only the required part counts, and all its terms must hold. Anti-affinity
    has the same form.
    """

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire, frozen=True, kw_only=True):
    """Affinity of a pod to nodes and to other pods."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Resources(Wire, frozen=True, kw_only=True):
    """Requests and limits by resource name, as quantities."""

    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class ContainerPort(Wire, frozen=True, kw_only=True):
    """A port of a container. If it has a host port, it takes that port of the node."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Wire, frozen=True, kw_only=True):
    """A container or init container; an init container with restartPolicy Always is a sidecar."""

    name: str = ""
    resources: Resources = Resources()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None

    @property
    def is_sidecar(self) -> bool:
        """True for an init container that runs together with the containers."""
        return self.restart_policy == "Always"


class SchedulingGate(Wire, frozen=True, kw_only=True):
    """A gate of a pod. As long as the pod has one, no scheduler may touch it."""

    name: str = ""


class PodClaim(Wire, frozen=True, kw_only=True):
    """A request in a pod's spec for DRA devices, by a ResourceClaim that exists or by a template for one."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodClaimStatus(Wire, frozen=True, kw_only=True):
    """The ResourceClaim that was made for one of the pod's claims; empty if none is needed."""

    name: str = ""
    resource_claim_name: str = ""


class ClaimRequestMapping(Wire, frozen=True, kw_only=True):
    """The request of a ResourceClaim that provides the devices which a container asked for as a resource."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedClaimStatus(Wire, frozen=True, kw_only=True):
    """The ResourceClaim that was made for the devices that a pod asked for as resources."""

    resource_claim_name: str = ""
    request_mappings: tuple[ClaimRequestMapping, ...] = ()


class WorkloadReference(Wire, frozen=True, kw_only=True):
    """The group to which a pod belongs, in a Workload (Kubernetes 1.35)."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class SchedulingGroup(Wire, frozen=True, kw_only=True):
    """The PodGroup that a pod belongs to (Kubernetes 1.36 and later)."""

    pod_group_name: str = ""


class ClaimSource(Wire, frozen=True, kw_only=True):
    """The claim that a volume of a pod names, in the pod's namespace."""

    claim_name: str = ""


class EphemeralSource(Wire, frozen=True, kw_only=True):
    """A volume for which Kubernetes makes a claim of its own, named `<pod>-<volume>`."""


class PodVolume(Wire, frozen=True, kw_only=True):
    """A volume of a pod. Volumes without a claim have no fields here, because they can be used on any node."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None


class PodSpec(Wire, frozen=True, kw_only=True):
    """The fields of a pod's spec that decisions read."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, str] = {}
    resources: Resources = Resources()
    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[SpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    restart_policy: str = "Always"
    priority: int | None = None
    resource_claims: tuple[PodClaim, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    workload_ref: WorkloadReference | None = None
    scheduling_group: SchedulingGroup | None = None

    @property
    def host_ports(self) -> tuple[ContainerPort, ...]:
        """The ports of its node that the pod takes. For a pod in the host's network the apiserver fills them in."""
        running = (*self.containers, *(each for each in self.init_containers if each.is_sidecar))
        return tuple(port for container in running for port in container.ports if port.host_port)

    @property
    def anti_affinity_terms(self) -> tuple[PodAffinityTerm, ...]:
        """The required anti-affinity terms: each says which other pods must not be near the pod."""
        found = self.affinity.pod_anti_affinity if self.affinity else None
        return found.required if found else ()

    @property
    def pod_affinity_terms(self) -> tuple[PodAffinityTerm, ...]:
        """The required affinity terms for pods: each says which other pods must be near the pod."""
        found = self.affinity.pod_affinity if self.affinity else None
        return found.required if found else ()

    @property
    def hard_spread_constraints(self) -> tuple[SpreadConstraint, ...]:
        """The topology spread constraints that keep the pod from some nodes (`DoNotSchedule`)."""
        return tuple(each for each in self.topology_spread_constraints if each.when_unsatisfiable == "DoNotSchedule")


class Terminated(Wire, frozen=True, kw_only=True):
    """How a container ended. `message` is what the container left in its termination log."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class Running(Wire, frozen=True, kw_only=True):
    """The state of a running container: when it started."""

    started_at: str | None = None


class WaitingContainer(Wire, frozen=True, kw_only=True):
    """The state of a container that has not started, or not started again: why it waits."""

    reason: str = ""
    message: str = ""


class ContainerState(Wire, frozen=True, kw_only=True):
    """The state of a container. One of the fields is set."""

    waiting: WaitingContainer | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Wire, frozen=True, kw_only=True):
    """The kubelet's last report of a container."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Wire, frozen=True, kw_only=True):
    """The fields of a pod's status that decisions read."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedClaimStatus | None = None


class Pod(KubeObject, frozen=True, kw_only=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def volume_claims(self) -> tuple[Key, ...]:
        """The PersistentVolumeClaims of the pod's volumes, whether they exist or not."""
        used = ((each, each.persistent_volume_claim) for each in self.spec.volumes)
        names = (
            claim.claim_name if claim is not None else f"{self.name}-{each.name}"
            for each, claim in used
            if claim is not None or each.ephemeral is not None
        )
        return tuple((self.metadata.namespace, name) for name in names)

    @property
    def is_finished(self) -> bool:
        """True if the pod is Succeeded or Failed: the kubelet has stopped all containers and starts none again."""
        return self.status.phase in ("Succeeded", "Failed")

    def condition(self, type_: str) -> Condition | None:
        """Return the pod's condition of that type; None if it was never set."""
        return next((c for c in self.status.conditions if c.type == type_), None)

    def is_condition_true(self, type_: str) -> bool:
        """True if the pod has a condition of that type, and it is True."""
        condition = self.condition(type_)
        return condition is not None and condition.status == "True"


class BudgetSpec(Wire, frozen=True, kw_only=True):
    """The spec of a PodDisruptionBudget. Without a selector it is about no pods."""

    selector: LabelSelector | None = None


class BudgetStatus(Wire, frozen=True, kw_only=True):
    """How many pods of a budget are Ready and not being deleted, and how many should be."""

    current_healthy: int = 0
    desired_healthy: int = 0


class Budget(KubeObject, frozen=True, kw_only=True):
    """A PodDisruptionBudget."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class NodeSpec(Wire, frozen=True, kw_only=True):
    """The part of a Node that people and controllers set."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeAddress(Wire, frozen=True, kw_only=True):
    """An address of a node: InternalIP, Hostname, …"""

    type: str = ""
    address: str = ""


class KubeletEndpoint(Wire, frozen=True, kw_only=True):
    """The port on which the kubelet answers."""

    port: int = msgspec.field(default=10250, name="Port")


class DaemonEndpoints(Wire, frozen=True, kw_only=True):
    """The ports on which the daemons of a node answer."""

    kubelet_endpoint: KubeletEndpoint = KubeletEndpoint()


class NodeInfo(Wire, frozen=True, kw_only=True):
    """What the kubelet says about its machine. `boot_id` changes with each start of the machine."""

    boot_id: str = msgspec.field(default="", name="bootID")


class NodeStatus(Wire, frozen=True, kw_only=True):
    """The part of a Node that the kubelet reports."""

    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    daemon_endpoints: DaemonEndpoints = DaemonEndpoints()
    node_info: NodeInfo = NodeInfo()

    @property
    def boot_id(self) -> str:
        """The id of the machine's boot; empty if it is not known."""
        return self.node_info.boot_id


class NodeDevice(Wire, frozen=True, kw_only=True):
    """A usable DRA device of a node. `word` is `uuid[,pci]`; `attributes` are its attributes with text values, without
    the driver's domain.
    """

    word: str
    attributes: dict[str, str] = msgspec.field(default_factory=dict)


class Node(KubeObject, frozen=True, kw_only=True):
    """A Kubernetes Node. Two fields come from other objects. `devices`: driver → the Node's usable DRA devices.
    `drain_request`: who asks for a drain of the Node; empty if nobody does, None while that is not known.
    """

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
    devices: dict[str, tuple[NodeDevice, ...]] = msgspec.field(default_factory=dict)
    drain_request: str | None = None

    @property
    def internal_ip(self) -> str:
        """The node's first InternalIP; empty if it has none."""
        return next((a.address for a in self.status.addresses if a.type == "InternalIP"), "")

    @property
    def is_ready(self) -> bool:
        """True if the kubelet has reported that the node is Ready."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    def condition(self, type_: str) -> Condition | None:
        """Return the node's condition of that type; None if it was never set."""
        return next((c for c in self.status.conditions if c.type == type_), None)
