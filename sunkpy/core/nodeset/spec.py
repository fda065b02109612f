"""The NodeSet as people write it and as its status is reported (`crds/sunkpy.dev_nodesets.yaml`)."""

from __future__ import annotations

import enum
from datetime import datetime

import msgspec

from sunkpy.core import names
from sunkpy.core.model import quantity
from sunkpy.core.model.devices import UNKNOWN
from sunkpy.core.model.growth import GrowthStatus
from sunkpy.core.model.objects import Condition, KubeObject, Node, Pod, PodSpec, Wire
from sunkpy.core.model.slurmd import nodeset_owner
from sunkpy.core.nodeset.gpu_label import agrees, explain_unclear, labelled_type
from sunkpy.core.nodeset.windows import Window, is_open

Template = dict[str, object]
"""A pod template exactly as written: it is copied into pods, so nothing may be lost in a typed decode."""


class GpuType(Wire, frozen=True, kw_only=True):
    """GPUs of one type: an extended resource, or those devices of the DRA driver that have all these attributes."""

    type: str = ""
    resource: str = ""
    attributes: dict[str, str] = msgspec.field(default_factory=dict)


class GpusOffered(Wire, frozen=True, kw_only=True):
    """The GPUs of one type that a node offers. `words` are the driver's names of these GPUs; empty if some have no
    name.
    """

    gres: str
    count: int
    words: str = ""


class Gpu(Wire, frozen=True, kw_only=True):
    """Which devices of a Node are GRES `gpu[:type]` in Slurm: an extended resource, or the devices of a DRA driver.

    `types` replaces `resource` and `type` if there are several types. `type_label`: a label of the Node that says the
    type, or has to agree with `type`.
    """

    resource: str = "nvidia.com/gpu"
    type: str = ""
    type_label: str = ""
    driver: str = ""
    types: tuple[GpuType, ...] = ()

    def offered_on(self, node: Node) -> tuple[GpusOffered, ...] | None:
        """Return the GPUs that the node offers, in the order of Slurm's indices; None while its DRA driver or its type
        label does not say.

        A device that fits several types counts as the first of them; one that fits none is not offered.
        """
        return self._read(node)[0]

    def why_none_on(self, node: Node) -> str:
        """Return why the node offers no GPU, or why its GPUs are not known; empty if it offers some."""
        return self._read(node)[1]

    def _read(self, node: Node) -> tuple[tuple[GpusOffered, ...] | None, str]:
        """Return the GPUs that the node offers, and why it offers none or they are not known."""
        offered = self._all_on(node)
        if offered is None:
            return None, "has no ResourceSlice, or not all"
        if not offered:
            return (), "has none"
        if not self.type_label:
            return offered, ""
        if unclear := explain_unclear(node, self.type_label, offered[0].count):
            return None, unclear
        said = labelled_type(node, self.type_label)
        if not self.type:
            return (msgspec.structs.replace(offered[0], gres=f"gpu:{said}"),), ""
        if agrees(said, self.type):
            return offered, ""
        return (), f"label {self.type_label} says {said}, not {self.type}"

    def _all_on(self, node: Node) -> tuple[GpusOffered, ...] | None:
        """Return the GPUs that the node offers, one entry for each of `types`; the type label is not read. None while
        the DRA driver does not say.
        """
        if self.driver and self.driver not in node.devices:
            return None
        left = list(node.devices.get(self.driver, ()))
        found = []
        for each in self.types or (GpuType(type=self.type, resource=self.resource),):
            own = [device for device in left if each.attributes.items() <= device.attributes.items()]
            left = [device for device in left if device not in own]
            words = " ".join(device.word for device in own)
            count = len(own) if self.driver else quantity.whole(node.status.allocatable.get(each.resource, "0"))
            gres = f"gpu:{each.type}" if each.type else "gpu"
            found.append(GpusOffered(gres=gres, count=count, words="" if UNKNOWN in words.split() else words))
        return tuple(each for each in found if each.count)

    def count_on(self, node: Node) -> int | None:
        """Return how many GPUs of all types the node offers; None while its driver or type label does not say."""
        offered = self.offered_on(node)
        return sum(each.count for each in offered) if offered is not None else None

    def __str__(self) -> str:
        return self.driver or ", ".join(each.resource for each in self.types) or self.resource


class CountedGres(Wire, frozen=True, kw_only=True):
    """A GRES that Slurm only counts, without devices: `count` on each node, or as many as the Node has of
    `resource`.
    """

    name: str = ""
    count: int = 0
    resource: str = ""

    def count_on(self, node: Node) -> int:
        """Return how many of the GRES the node offers."""
        return self.count or quantity.whole(node.status.allocatable.get(self.resource, "0"))


class Reserved(Wire, frozen=True, kw_only=True):
    """Part of the node's allocatable that Slurm must not hand out, as quantities."""

    cpu: str | int = "0"
    memory: str | int = "512Mi"


class Ask(enum.StrEnum):
    """By which kind of object the operator asks autoscalers for nodes that jobs want."""

    NONE = "none"
    AUTO = "auto"
    PLACEHOLDERS = "placeholders"
    CAPACITY_BUFFER = "capacityBuffer"
    PROVISIONING_REQUEST = "provisioningRequest"


class NodeShape(Wire, frozen=True, kw_only=True):
    """What a node that does not exist yet would offer. `gres` is written as Slurm writes it."""

    cpus: int = 0
    memory: str | int = "0"
    gres: str = ""


class Growth(Wire, frozen=True, kw_only=True):
    """How far a NodeSet may grow. `potential`: for how many nodes, those that exist included, Slurm takes jobs (with
    `replicas`, for no more than that). It does not limit nodes that exist: without `replicas` each feasible node gets a
    slurmd pod. `shape`: what each new node offers (None: the same as existing nodes). `ask`: how autoscalers are asked.
    `release_after_seconds`: after how many idle seconds a node is left to autoscalers (None: never).
    """

    potential: int = 0
    shape: NodeShape | None = None
    ask: Ask = Ask.NONE
    release_after_seconds: int | None = None


class RollingUpdate(Wire, frozen=True, kw_only=True):
    """How many pods a rolling update may replace at once (number or percentage), and in which weekly windows (none:
    always).
    """

    max_unavailable: int | str = "25%"
    windows: tuple[Window, ...] = ()


class UpdateStrategy(Wire, frozen=True, kw_only=True):
    """How pods get a new template: by RollingUpdate, or with OnDelete only when somebody deletes them."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class NodeSetSpec(Wire, frozen=True, kw_only=True):
    """The spec of a NodeSet. `replicas` None: one pod on every feasible node. `drain_timeout_seconds` None: no limit.
    `smt` (which hardware threads Slurm gets) empty: `whole-cores`.
    """

    cluster: str = ""
    replicas: int | None = None
    pod_name_prefix: str = ""
    naming: str = "InternalIP"
    features: tuple[str, ...] = ()
    feature_labels: tuple[str, ...] = ()
    weight: int = 1
    weight_label: str = ""
    gpu: Gpu | None = None
    gres: tuple[CountedGres, ...] = ()
    reserved: Reserved = Reserved()
    smt: str = ""
    growth: Growth = Growth()
    update_strategy: UpdateStrategy = UpdateStrategy()
    paused: bool = False
    drain_timeout_seconds: int | None = None
    drain_timeout_policy: str = "Wait"
    template: Template = msgspec.field(default_factory=dict)

    @property
    def releases(self) -> bool:
        """True if the NodeSet leaves nodes that are idle for long to autoscalers. False if it may not grow, or with
        `replicas`, because then that number decides.
        """
        is_grown = self.growth.potential > 0  # else nobody would learn that jobs want nodes back
        return is_grown and self.growth.release_after_seconds is not None and self.replicas is None


class NodeSetStatus(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """The status of a NodeSet. The names of its fields are those of SUNK (CoreWeave's Slurm on Kubernetes), whose
    dashboards read them unchanged; only `number_unhealthy` and `growth` are sunkpy's own.

    The syncer writes `growth`; the operator writes everything else.
    """

    desired_number_scheduled: int = 0
    number_feasible: int = 0
    current_number_scheduled: int = 0
    number_ready: int = 0
    number_drain: int = 0
    number_running: int = 0
    number_unhealthy: int = 0
    number_misscheduled: int = 0
    number_unavailable: int = 0
    updated_number_scheduled: int = 0
    observed_generation: int = 0
    selector: str = ""
    growth: GrowthStatus | None = None
    conditions: tuple[Condition, ...] = ()

    def condition(self, type_: str) -> Condition | None:
        """Return the NodeSet's condition of that type; None if it was never set."""
        return next((c for c in self.conditions if c.type == type_), None)


class NodeSet(KubeObject, frozen=True, kw_only=True):
    """A NodeSet: it keeps one slurmd pod on each of a set of nodes."""

    spec: NodeSetSpec = NodeSetSpec()
    status: NodeSetStatus = NodeSetStatus()

    @property
    def prefix(self) -> str:
        """The first part of the names of the NodeSet's pods: `podNamePrefix`, or else the NodeSet's own name."""
        return self.spec.pod_name_prefix or self.name

    @property
    def title(self) -> str:
        """The NodeSet as `namespace/name`."""
        return f"{self.metadata.namespace}/{self.name}"

    @property
    def pod_selector(self) -> str:
        """The label selector of the NodeSet's slurmd pods, within its namespace."""
        return f"{names.LABEL_NODESET}={self.name},{names.LABEL_ROLE}={names.ROLE_COMPUTE}"

    @property
    def reference(self) -> dict[str, str]:
        """An owner reference to the NodeSet. Kubernetes deletes an object that carries it once the NodeSet is gone."""
        return {
            "apiVersion": f"{names.API_GROUP}/{names.API_VERSION}",
            "kind": names.NODESET_KIND,
            "name": self.name,
            "uid": self.uid,
        }

    @property
    def controller_reference(self) -> dict[str, str | bool]:
        """The owner reference that makes the NodeSet the controller of an object."""
        return {**self.reference, "controller": True, "blockOwnerDeletion": True}

    @property
    def pod_spec(self) -> PodSpec:
        """The template's pod spec, decoded into the fields that decisions read.

        Raises:
            msgspec.ValidationError: the template is not a pod template; the message names the field.
        """
        return msgspec.convert(_with_text_quantities(self.spec.template.get("spec", {})), PodSpec)

    def owns(self, pod: Pod) -> bool:
        """True if this NodeSet controls the pod, and not an earlier NodeSet of the same name."""
        owner = nodeset_owner(pod)
        return owner is not None and owner.uid == self.uid and pod.metadata.namespace == self.metadata.namespace


def _with_text_quantities(value: object, *, in_resources: bool = False) -> object:
    """Turn numbers in resources into text. People may write `cpu: 2`; the apiserver turns that into text in pods, but
    not inside a custom resource.
    """
    if isinstance(value, dict):
        return {
            key: _with_text_quantities(inner, in_resources=in_resources or key in ("requests", "limits", "overhead"))
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_with_text_quantities(inner, in_resources=in_resources) for inner in value]
    if in_resources and isinstance(value, (int, float)):
        return str(value)
    return value


def rolls_now(spec: NodeSetSpec, now: datetime) -> bool:
    """True if a rolling update may replace pods of the NodeSet at this time: strategy, pause and windows allow it."""
    strategy = spec.update_strategy
    return strategy.type == "RollingUpdate" and not spec.paused and is_open(strategy.rolling_update.windows, now)
