"""Which pods are slurmd pods (those that a NodeSet controls), and which Slurm node each one runs.

Anybody can write labels, in any namespace. Anybody can write an owner reference too, but the garbage collector deletes
a pod whose owner does not exist, and the operator compares uids as well.
"""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import KubeObject, Meta, OwnerReference, Pod


def nodeset_owner(pod: Pod) -> OwnerReference | None:
    """Return the owner reference of the NodeSet that controls the pod; None if none does."""
    return next((owner for owner in pod.metadata.owner_references if _is_nodeset(owner)), None)


def nodeset_of(pod: Pod) -> KubeObject | None:
    """Return the NodeSet that controls a pod, as the object of an Event: name, namespace and uid, from the owner
    reference alone. None if no NodeSet does.
    """
    owner = nodeset_owner(pod)
    if owner is None:
        return None
    return KubeObject(metadata=Meta(name=owner.name, namespace=pod.metadata.namespace, uid=owner.uid))


def is_slurmd(pod: Pod) -> bool:
    """True if a NodeSet controls the pod."""
    return nodeset_owner(pod) is not None


def slurm_node_of(pod: Pod) -> str:
    """Return the Slurm node that a slurmd pod runs; empty if the pod names none."""
    return pod.labels.get(names.LABEL_SLURM_NODE, "")


def is_idle(pod: Pod) -> bool:
    """True if Slurm says that no job is on the pod's node; False if that is not known."""
    running = pod.condition(names.CONDITION_RUNNING)
    return running is not None and running.status == "False"


def is_emptied(pod: Pod) -> bool:
    """True if Slurm says that the pod's node is drained and that no job is on it."""
    return is_idle(pod) and pod.is_condition_true(names.CONDITION_DRAIN)


def _is_nodeset(owner: OwnerReference) -> bool:
    group = owner.api_version.partition("/")[0]
    return owner.controller and group == names.API_GROUP and owner.kind == names.NODESET_KIND
