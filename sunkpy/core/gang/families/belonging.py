"""What families (kinds of workloads) use to identify the gang of a pod: its controller, the owners above it, and names
in its labels.

Owner references are looked at first, and then the owners themselves. So the right family takes the pod even if its
owner cannot be read.

A name outlives the object with that name: if a PodGroup is deleted, its pods may still run. So the identity of pods
that share the name of a group is made of the name alone, whether the group exists or not.
"""

from __future__ import annotations

import hashlib

from sunkpy.core.gang.gang import Owners
from sunkpy.core.gang.identity import GangId, token
from sunkpy.core.gang.owners import controller_of
from sunkpy.core.model.objects import Kind, Owner, OwnerReference, Pod


def named_id(pod: Pod, by: str, name: str, *, unit: str = "") -> GangId:
    """Return the identity of the gang of all pods in the pod's namespace that have `name` in the label, annotation or
    reference `by`.

    A name may be any text. The uid of the identity is a digest of the whole name, so two names stay apart even if they
    become equal where unusual characters are replaced.
    """
    uid = "by-" + _digest(f"{by}\0{name}")
    return GangId(namespace=pod.metadata.namespace, name=token(name), uid=uid, unit=unit)


def distinct(text: str) -> str:
    """Return the text in a form that can be part of a gang's identity: unusual characters are replaced, and a digest is
    added if anything was changed. Different texts give different results.
    """
    return text if token(text) == text else f"{token(text)[:40]}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def reference_to(pod: Pod, kind: Kind) -> OwnerReference | None:
    """Return the pod's first reference to an owner of this kind, in any API version, whether the owner is the pod's
    controller or not. None if there is none.
    """
    return next((ref for ref in pod.metadata.owner_references if _kind_of(ref) == kind), None)


def made_by(pod: Pod, kind: Kind, owners: Owners = ()) -> OwnerReference | None:
    """Return the owner reference to a controller of this kind, in any API version. It is looked for on the pod, then on
    each of these owners. None if there is none.
    """
    for child in (pod, *owners):
        for each in child.metadata.owner_references:
            if each.controller and _kind_of(each) == kind:
                return each
    return None


def _kind_of(reference: OwnerReference) -> Kind:
    return Owner(api_version=reference.api_version, kind=reference.kind).is_a


def maker(pod: Pod) -> str:
    """Return the uid of the pod's controller; empty for a bare pod, which has none."""
    reference = controller_of(pod)
    return reference.uid if reference is not None else ""


def nearest(owners: Owners, *kinds: Kind) -> Owner | None:
    """Return the first of the owners that is of one of these kinds; None if there is none."""
    return next((owner for owner in owners if owner.is_a in kinds), None)


def controllers(pod: Pod, owners: Owners) -> tuple[Owner, ...]:
    """Return the chain of controllers above the pod, as far as they are among `owners`, nearest first. Owners that only
    stand in a label or annotation of the pod are left out.
    """
    by_uid = {owner.uid: owner for owner in owners}
    found: list[Owner] = []
    references = pod.metadata.owner_references
    while owner := next((by_uid.pop(ref.uid) for ref in references if ref.controller and ref.uid in by_uid), None):
        found.append(owner)
        references = owner.metadata.owner_references
    return tuple(found)


def top(pod: Pod, owners: Owners) -> str:
    """Return the kind and name of the topmost controller of the pod, for messages: `Deployment default/web`. Empty for
    a bare pod.
    """
    above = controllers(pod, owners)
    if above:
        return f"{above[-1].kind} {'/'.join(above[-1].key)}"
    reference = controller_of(pod)
    return f"{reference.kind} {pod.metadata.namespace}/{reference.name}" if reference else ""
