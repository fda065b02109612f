"""What families share whose owners declare how many pods there will be: the owner, its numbers, options, refusal."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.gang import Gang, Owners, Role, by_seniority
from sunkpy.core.gang.identity import GangId, token
from sunkpy.core.gang.options import read_options
from sunkpy.core.model.objects import Kind, Owner, OwnerReference, Pod, PodSpec, Wire

MOST_PLACES: Final = 65_533
"""The most nodes that Slurm gives to one job (slurm.h, MAX_SLURM_NODES)."""

_QUANTITIES: Final = ("requests", "limits", "overhead")


class Template(Wire, frozen=True, kw_only=True):
    """The pod template of a custom resource, as a person wrote it."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")

    @property
    def shape(self) -> PodSpec:
        """What its pods will ask for.

        Here `cpu: 1` is still the number that it was written as; pods have text, since Kubernetes rewrites them.

        Raises:
            msgspec.ValidationError: it is no template.
        """
        return msgspec.convert(_with_text(msgspec.json.decode(self.spec)), PodSpec)


def _with_text(tree: object) -> object:
    if isinstance(tree, list):
        return [_with_text(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        key: {name: str(amount) for name, amount in each.items()}
        if key in _QUANTITIES and isinstance(each, dict)
        else _with_text(each)
        for key, each in tree.items()
    }


class BadDeclaration(ValueError):
    """The owner does not say how many pods there will be, or contradicts itself; the text is for its people."""


def reference_to(pod: Pod, kind: Kind) -> OwnerReference | None:
    """The pod's reference to an owner of that kind, in whichever version; known before the owner was read."""
    return next((ref for ref in pod.metadata.owner_references if _kind_of(ref) == kind), None)


def made_by(pod: Pod, kind: Kind) -> OwnerReference | None:
    """The pod's reference to its controller, if that is of this kind."""
    reference = reference_to(pod, kind)
    return reference if reference is not None and reference.controller else None


def has_controller(pod: Pod) -> bool:
    """Something makes the pod again when it is gone."""
    return any(reference.controller for reference in pod.metadata.owner_references)


def _kind_of(reference: OwnerReference) -> Kind:
    return Owner(api_version=reference.api_version, kind=reference.kind).is_a


def named_id(pod: Pod, by: str, name: str) -> GangId:
    """Identity of the pods that carry `name` under the label or annotation `by`, in one namespace.

    It is made of the name alone, so that it stays when the object of that name is deleted or made anew. A name may be
    any text: the digest keeps two of them apart that look alike as tokens.
    """
    digest = hashlib.sha256(f"{by}\0{name}".encode()).hexdigest()[:20]
    return GangId(namespace=pod.metadata.namespace, name=token(name), uid=f"by-{digest}")


def above(owners: Owners, kind: Kind) -> Owner | None:
    """The nearest of the owners that is of this kind."""
    return next((owner for owner in owners if owner.is_a == kind), None)


def declared_in(owners: Owners, kind: Kind, *, called: str) -> Owner:
    """The owner that declares the sizes.

    Raises:
        BadDeclaration: it could not be read.
    """
    owner = above(owners, kind)
    if owner is None:
        raise BadDeclaration(f"{called} could not be read, and only it says how many pods there will be")
    return owner


def number_of(text: str) -> int:
    """A number that is not negative, or -1 when the text is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def at_least(number: int, least: int, *, field: str) -> int:
    """The same number.

    Raises:
        BadDeclaration: it is smaller.
    """
    if number < least:
        raise BadDeclaration(f"{field} is {number}: at least {least} is needed")
    return number


def gang_of(id: GangId, roles: tuple[Role, ...], owners: Owners, *, kind: str) -> Gang:
    """A gang of these roles, with the options that their pods and owners ask for.

    The pods of a role are made from one template, so the first speaks for all, leaders before the others.

    Raises:
        BadDeclaration: no job can hold so many places.
    """
    places = sum(role.places for role in roles)
    if places > MOST_PLACES:
        raise BadDeclaration(f"{places} pods are more than Slurm gives to one job: at most {MOST_PLACES}")
    pods = (role.members[0].pod for role in roles if role.members)
    options, problems = read_options([*(pod.annotations for pod in pods), *(owner.annotations for owner in owners)])
    return Gang(id=id, roles=roles, options=options, problems=problems, kind=kind)


def refused(id: GangId, pods: Sequence[Pod], owners: Owners, *, kind: str, why: str) -> Gang:
    """A gang without a size that can be used: it keeps the pods that it has, and is not submitted."""
    living = sum(not pod.is_finished for pod in pods)
    roles = (Role(name="pod", places=living, first=living, members=by_seniority(pods, living)),)
    return msgspec.structs.replace(gang_of(id, roles, owners, kind=kind), refused=why)
