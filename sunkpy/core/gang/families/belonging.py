"""What families use to identify the gang of a pod: its controller, the owners above it, and names in its labels.

Owner references are read before the owners, so the right family takes the pod even if its owner cannot be read.

A name outlives its object: if a PodGroup is deleted, its pods may still run. So the identity of pods that share a name
is made of the name alone, whether its object exists or not.
"""

from __future__ import annotations

import hashlib

from sunkpy.core.gang.gang import Owners
from sunkpy.core.gang.identity import GangId, token
from sunkpy.core.gang.owners import controller_of
from sunkpy.core.model.objects import Kind, Owner, OwnerReference, Pod


def named_id(pod: Pod, by: str, name: str, *, unit: str = "") -> GangId:
    """Return the identity of the pods of a namespace that have `name` in the label, annotation or reference `by`.

    A name may be any text. The uid is a digest of it, so two names that look alike as tokens stay apart.
    """
    uid = "by-" + _digest(f"{by}\0{name}")
    return GangId(namespace=pod.metadata.namespace, name=token(name), uid=uid, unit=unit)


def distinct(text: str) -> str:
    """Return the text in a form that can be part of an identity. Different texts give different results."""
    return text if token(text) == text else f"{token(text)[:40]}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def reference_to(pod: Pod, kind: Kind) -> OwnerReference | None:
    """Return the pod's reference to an owner of that kind, in any version, whether it is the controller or not."""
    return next((ref for ref in pod.metadata.owner_references if _kind_of(ref) == kind), None)


def made_by(pod: Pod, kind: Kind, owners: Owners = ()) -> OwnerReference | None:
    """Return the reference to a controller of this kind: that of the pod, or of one of these owners. None if there is
    none.
    """
    for child in (pod, *owners):
        for each in child.metadata.owner_references:
            if each.controller and _kind_of(each) == kind:
                return each
    return None


def _kind_of(reference: OwnerReference) -> Kind:
    return Owner(api_version=reference.api_version, kind=reference.kind).is_a


def maker(pod: Pod) -> str:
    """Return the uid of the pod's controller, which replaces the pod; empty for a bare pod."""
    reference = controller_of(pod)
    return reference.uid if reference is not None else ""


def nearest(owners: Owners, *kinds: Kind) -> Owner | None:
    """Return the first of the owners that is of one of these kinds."""
    return next((owner for owner in owners if owner.is_a in kinds), None)


def controllers(pod: Pod, owners: Owners) -> tuple[Owner, ...]:
    """Return the controllers above the pod, nearest first. Other owners, to which it only refers, are left out."""
    by_uid = {owner.uid: owner for owner in owners}
    found: list[Owner] = []
    references = pod.metadata.owner_references
    while owner := next((by_uid.pop(ref.uid) for ref in references if ref.controller and ref.uid in by_uid), None):
        found.append(owner)
        references = owner.metadata.owner_references
    return tuple(found)


def top(pod: Pod, owners: Owners) -> str:
    """Return the name of the pod's workload for messages: `Deployment default/web`; empty for a bare pod."""
    above = controllers(pod, owners)
    if above:
        return f"{above[-1].kind} {'/'.join(above[-1].key)}"
    reference = controller_of(pod)
    return f"{reference.kind} {pod.metadata.namespace}/{reference.name}" if reference else ""
