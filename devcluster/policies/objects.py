"""The parts of pods, namespaces and NetworkPolicies (networking.k8s.io/v1) that decide which traffic is allowed."""

import ipaddress
from collections.abc import Mapping
from typing import Literal

import msgspec

Labels = dict[str, str]
Direction = Literal["ingress", "egress"]


class Meta(msgspec.Struct, frozen=True):
    """The metadata of an object."""

    name: str = ""
    namespace: str = ""
    labels: Labels = {}


class Expression(msgspec.Struct, frozen=True):
    """An entry of a LabelSelector's `matchExpressions`."""

    key: str
    operator: str
    values: list[str] = []

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True if the expression matches these labels; NotIn also matches if the label is missing."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


class Selector(msgspec.Struct, frozen=True, rename="camel"):
    """A LabelSelector; an empty one selects everything."""

    match_labels: Labels = {}
    match_expressions: list[Expression] = []

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True if the whole selector matches these labels."""
        return self.match_labels.items() <= labels.items() and all(
            each.matches(labels) for each in self.match_expressions
        )


class IpBlock(msgspec.Struct, frozen=True, rename={"excluded": "except"}):
    """A range of addresses, without the `excluded` ranges in it."""

    cidr: str
    excluded: list[str] = []

    @property
    def is_v4(self) -> bool:
        """True for IPv4; the cluster has no IPv6."""
        return ipaddress.ip_network(self.cidr, strict=False).version == 4


class Peer(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of a rule's `from` or `to`."""

    pod_selector: Selector | None = None
    namespace_selector: Selector | None = None
    ip_block: IpBlock | None = None


class Port(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of a rule's `ports`; without `port` it means every port of the protocol."""

    protocol: str = "TCP"
    port: int | str | None = None
    end_port: int | None = None


class Rule(msgspec.Struct, frozen=True, rename={"sources": "from", "targets": "to"}):
    """An entry of a policy's `ingress` or `egress`; no peers means all peers, and no ports means all ports."""

    sources: list[Peer] = []
    targets: list[Peer] = []
    ports: list[Port] = []

    @property
    def peers(self) -> list[Peer]:
        """The rule's peers: its `from` or its `to`."""
        return self.sources or self.targets


class PolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a NetworkPolicy."""

    pod_selector: Selector = Selector()
    policy_types: list[str] = []
    ingress: list[Rule] = []
    egress: list[Rule] = []

    def rules(self, direction: Direction) -> list[Rule] | None:
        """Return the policy's rules for a direction; None if it does not restrict that direction."""
        rules = self.ingress if direction == "ingress" else self.egress
        types = self.policy_types or ["Ingress", *(["Egress"] if self.egress else [])]
        return rules if direction.capitalize() in types else None


class Policy(msgspec.Struct, frozen=True):
    """A NetworkPolicy."""

    metadata: Meta
    spec: PolicySpec


class Namespace(msgspec.Struct, frozen=True):
    """A Namespace."""

    metadata: Meta


class ContainerPort(msgspec.Struct, frozen=True, rename="camel"):
    """A port in a container's spec."""

    container_port: int
    name: str = ""
    protocol: str = "TCP"


class Container(msgspec.Struct, frozen=True):
    """A container of a pod."""

    ports: list[ContainerPort] = []


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a pod: its node and its ports."""

    node_name: str = ""
    host_network: bool = False
    containers: list[Container] = []
    init_containers: list[Container] = []


class PodStatus(msgspec.Struct, frozen=True, rename={"pod_ip": "podIP"}):
    """The status of a pod: its phase and address."""

    phase: str = ""
    pod_ip: str = ""


class Pod(msgspec.Struct, frozen=True):
    """A pod."""

    metadata: Meta
    spec: PodSpec
    status: PodStatus = PodStatus()

    @property
    def has_address(self) -> bool:
        """True if the pod has an address of its own; an ended pod has none any more."""
        return bool(self.status.pod_ip) and not self.spec.host_network and self.status.phase in ("Pending", "Running")

    def numbers(self, port: Port) -> list[int]:
        """Return the port numbers that a named port has on this pod."""
        named = (each for part in (*self.spec.init_containers, *self.spec.containers) for each in part.ports)
        return [each.container_port for each in named if (each.name, each.protocol) == (port.port, port.protocol)]


class Cluster(msgspec.Struct, frozen=True):
    """All objects that decide which traffic is allowed."""

    pods: list[Pod] = []
    namespaces: list[Namespace] = []
    policies: list[Policy] = []
