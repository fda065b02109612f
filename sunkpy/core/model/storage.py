"""Kubernetes storage objects, with the fields that say from which nodes a pod reaches its volumes."""

from __future__ import annotations

from typing import Final

from sunkpy.core.model import quantity
from sunkpy.core.model.objects import KubeObject, LabelSelector, NodeSelector, Resources, Wire

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""The annotation of a claim by which a scheduler asks the storage driver to make the volume for that node."""

_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_WAITS: Final = "WaitForFirstConsumer"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


class ClaimSpec(Wire, frozen=True, kw_only=True):
    """The spec of a PersistentVolumeClaim. `storage_class_name` is None if the cluster had no default class, and empty
    if the claim wants no class.
    """

    volume_name: str = ""
    access_modes: tuple[str, ...] = ()
    storage_class_name: str | None = None
    resources: Resources = Resources()


class Claim(KubeObject, frozen=True, kw_only=True):
    """A PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()

    @property
    def is_bound(self) -> bool:
        """True if the claim has its volume, which will not change."""
        return bool(self.spec.volume_name) and _BIND_COMPLETED in self.annotations

    @property
    def is_for_one_pod(self) -> bool:
        """True if one pod at a time may use the claim: a second pod waits on its node until the first has ended."""
        return "ReadWriteOncePod" in self.spec.access_modes

    @property
    def size(self) -> str:
        """The size that the claim's volume must have, as a quantity; empty if the claim does not say."""
        return self.spec.resources.requests.get("storage", "")

    @property
    def selected_node(self) -> str:
        """The node for which the claim's volume is being made; empty if none was chosen, or the driver gave it back."""
        return self.annotations.get(SELECTED_NODE, "")


class VolumeNodeAffinity(Wire, frozen=True, kw_only=True):
    """The nodes from which a volume can be reached. None means all nodes."""

    required: NodeSelector | None = None


class ClaimReference(Wire, frozen=True, kw_only=True):
    """The claim to which a volume belongs."""

    namespace: str = ""
    name: str = ""


class VolumeSpec(Wire, frozen=True, kw_only=True):
    """The spec of a volume, as the driver wrote it when the volume was made."""

    node_affinity: VolumeNodeAffinity | None = None
    claim_ref: ClaimReference | None = None


class Volume(KubeObject, frozen=True, kw_only=True):
    """A PersistentVolume."""

    spec: VolumeSpec = VolumeSpec()


class TopologyLine(Wire, frozen=True, kw_only=True):
    """A node label, and its values that a storage class allows."""

    key: str
    values: tuple[str, ...] = ()


class TopologyTerm(Wire, frozen=True, kw_only=True):
    """Node labels with their allowed values. A node that matches all of them may get volumes of the storage class."""

    match_label_expressions: tuple[TopologyLine, ...] = ()


class StorageClass(KubeObject, frozen=True, kw_only=True):
    """A StorageClass: how and when its volumes are made."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] = ()

    @property
    def waits_for_consumer(self) -> bool:
        """True if a volume is chosen or made only once the pod's node is known (WaitForFirstConsumer)."""
        return self.volume_binding_mode == _WAITS

    @property
    def makes_volumes(self) -> bool:
        """True if a provisioner makes volumes of this class; otherwise an administrator makes them beforehand."""
        return bool(self.provisioner) and self.provisioner != _NO_PROVISIONER


class DriverSpec(Wire, frozen=True, kw_only=True):
    """The spec of a CSIDriver. `storage_capacity`: the driver publishes how much storage is free on which nodes."""

    storage_capacity: bool | None = None


class Driver(KubeObject, frozen=True, kw_only=True):
    """A CSIDriver; its name is the provisioner of its classes."""

    spec: DriverSpec = DriverSpec()


class FreeStorage(KubeObject, frozen=True, kw_only=True):
    """A CSIStorageCapacity: how large a volume of a class can be on the nodes of `node_topology`. Without
    `node_topology` it is for no node.
    """

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | None = None
    maximum_volume_size: str | None = None

    def holds(self, size: str) -> bool:
        """True if a volume of this size can be made on these nodes."""
        largest = self.maximum_volume_size or self.capacity
        return largest is not None and quantity.whole(largest) >= quantity.whole(size)
