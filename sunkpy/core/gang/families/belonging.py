"""Whose pod is it: what families use to identify a gang. Who made a pod, what stands above it, and which name it bears.

Owner references are checked before the owners are read, so the responsible family is known even if the owner cannot be
read.

A name outlives the object behind it. That a PodGroup was deleted says nothing about its pods, which may be running: so
the identity of pods that a name puts together is made of the name alone, and is the same whether its object is there.
"""

from __future__ import annotations

import hashlib

from sunkpy.core.gang.gang import Owners
from sunkpy.core.gang.identity import GangId, token
from sunkpy.core.gang.owners import controller_of
from sunkpy.core.model.objects import Kind, Owner, OwnerReference, Pod


def named_id(pod: Pod, by: str, name: str, *, unit: str = "") -> GangId:
    """Identity of the pods that carry `name` under the label, annotation or reference `by`, in one namespace.

    A name may be any text: the digest keeps two of them apart that look alike as tokens.
    """
    uid = "by-" + _digest(f"{by}\0{name}")
    return GangId(namespace=pod.metadata.namespace, name=token(name), uid=uid, unit=unit)


def distinct(text: str) -> str:
    """The text in a form that may stand in an identity. Two texts never become the same."""
    return text if token(text) == text else f"{token(text)[:40]}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def reference_to(pod: Pod, kind: Kind) -> OwnerReference | None:
    """The pod's reference to an owner of that kind, in whichever version, be it responsible for the pod or not."""
    return next((ref for ref in pod.metadata.owner_references if _kind_of(ref) == kind), None)


def made_by(pod: Pod, kind: Kind, owners: Owners = ()) -> OwnerReference | None:
    """The owner of this kind that is responsible for the pod, directly or through one of these owners."""
    for child in (pod, *owners):
        for each in child.metadata.owner_references:
            if each.controller and _kind_of(each) == kind:
                return each
    return None


def _kind_of(reference: OwnerReference) -> Kind:
    return Owner(api_version=reference.api_version, kind=reference.kind).is_a


def maker(pod: Pod) -> str:
    """Uid of the pod's controller, which makes it again; empty for a bare pod."""
    reference = controller_of(pod)
    return reference.uid if reference is not None else ""


def nearest(owners: Owners, *kinds: Kind) -> Owner | None:
    """The first of the owners that is of one of these kinds."""
    return next((owner for owner in owners if owner.is_a in kinds), None)


def controllers(pod: Pod, owners: Owners) -> tuple[Owner, ...]:
    """The owners that made the pod, nearest first. Owners to which it only refers are left out."""
    by_uid = {owner.uid: owner for owner in owners}
    found: list[Owner] = []
    references = pod.metadata.owner_references
    while owner := next((by_uid.pop(ref.uid) for ref in references if ref.controller and ref.uid in by_uid), None):
        found.append(owner)
        references = owner.metadata.owner_references
    return tuple(found)


def top(pod: Pod, owners: Owners) -> str:
    """The name that people use for the pod's workload: `Deployment default/web`; empty for a bare pod."""
    above = controllers(pod, owners)
    if above:
        return f"{above[-1].kind} {'/'.join(above[-1].key)}"
    reference = controller_of(pod)
    return f"{reference.kind} {pod.metadata.namespace}/{reference.name}" if reference else ""
