"""What of pods, namespaces and NetworkPolicies (networking.k8s.io/v1) says who may talk to whom."""

import ipaddress
from collections.abc import Mapping
from typing import Literal

import msgspec

Labels = dict[str, str]
Direction = Literal["ingress", "egress"]


class Meta(msgspec.Struct, frozen=True):
    """Object metadata."""

    name: str = ""
    namespace: str = ""
    labels: Labels = {}


class Expression(msgspec.Struct, frozen=True):
    """One of `matchExpressions`."""

    key: str
    operator: str
    values: list[str] = []

    def matches(self, labels: Mapping[str, str]) -> bool:
        """As LabelSelectorRequirement says; NotIn holds where the label is not there."""
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
        """Whether all of it holds."""
        return self.match_labels.items() <= labels.items() and all(
            each.matches(labels) for each in self.match_expressions
        )


class IpBlock(msgspec.Struct, frozen=True, rename={"excluded": "except"}):
    """Addresses, and those among them that are not meant."""

    cidr: str
    excluded: list[str] = []

    @property
    def is_v4(self) -> bool:
        """The cluster has no others."""
        return ipaddress.ip_network(self.cidr, strict=False).version == 4


class Peer(msgspec.Struct, frozen=True, rename="camel"):
    """One of `from` or `to`."""

    pod_selector: Selector | None = None
    namespace_selector: Selector | None = None
    ip_block: IpBlock | None = None


class Port(msgspec.Struct, frozen=True, rename="camel"):
    """One of `ports`; without `port` it is every port of the protocol."""

    protocol: str = "TCP"
    port: int | str | None = None
    end_port: int | None = None


class Rule(msgspec.Struct, frozen=True, rename={"sources": "from", "targets": "to"}):
    """One of `ingress` or `egress`; no peers are all, and no ports are all."""

    sources: list[Peer] = []
    targets: list[Peer] = []
    ports: list[Port] = []

    @property
    def peers(self) -> list[Peer]:
        """Whichever of the two it has."""
        return self.sources or self.targets


class PolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a policy says."""

    pod_selector: Selector = Selector()
    policy_types: list[str] = []
    ingress: list[Rule] = []
    egress: list[Rule] = []

    def rules(self, direction: Direction) -> list[Rule] | None:
        """Those of a direction; None: it says nothing about it."""
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
    """A port that a container names."""

    container_port: int
    name: str = ""
    protocol: str = "TCP"


class Container(msgspec.Struct, frozen=True):
    """A container of a pod."""

    ports: list[ContainerPort] = []


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Where a pod is, and what it listens on."""

    node_name: str = ""
    host_network: bool = False
    containers: list[Container] = []
    init_containers: list[Container] = []


class PodStatus(msgspec.Struct, frozen=True, rename={"pod_ip": "podIP"}):
    """Its address."""

    phase: str = ""
    pod_ip: str = ""


class Pod(msgspec.Struct, frozen=True):
    """A pod."""

    metadata: Meta
    spec: PodSpec
    status: PodStatus = PodStatus()

    @property
    def has_address(self) -> bool:
        """Whether it has one of its own; one that has ended has given it back."""
        return bool(self.status.pod_ip) and not self.spec.host_network and self.status.phase in ("Pending", "Running")

    def numbers(self, port: Port) -> list[int]:
        """What a port by name is on this pod."""
        named = (each for part in (*self.spec.init_containers, *self.spec.containers) for each in part.ports)
        return [each.container_port for each in named if (each.name, each.protocol) == (port.port, port.protocol)]


class Cluster(msgspec.Struct, frozen=True):
    """All that counts."""

    pods: list[Pod] = []
    namespaces: list[Namespace] = []
    policies: list[Policy] = []
