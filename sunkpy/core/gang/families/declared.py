"""What families share whose owners declare how many pods there will be: the owner, its numbers, options, refusal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.gang import Gang, Owners, Role, by_seniority
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.options import JobOptions, Problem, read_options
from sunkpy.core.model.objects import Kind, Owner, OwnerReference, Pod, PodSpec, Wire

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


def _kind_of(reference: OwnerReference) -> Kind:
    return Owner(api_version=reference.api_version, kind=reference.kind).is_a


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


def at_least(number: int, least: int, *, field: str) -> int:
    """The same number.

    Raises:
        BadDeclaration: it is smaller.
    """
    if number < least:
        raise BadDeclaration(f"{field} is {number}: at least {least} is needed")
    return number


def options_by_rank(roles: Iterable[Role], owners: Owners) -> tuple[JobOptions, tuple[Problem, ...]]:
    """Options of a gang: those of the first pod of each role, leaders first, then of the owners.

    The pods of a role are made from one template, so the first speaks for all.
    """
    pods = (role.members[0].pod for role in roles if role.members)
    return read_options([*(pod.annotations for pod in pods), *(owner.annotations for owner in owners)])


def refused(id: GangId, pods: Sequence[Pod], owners: Owners, *, kind: str, why: str) -> Gang:
    """A gang without a size that can be used: it keeps the pods that it has, and is not submitted."""
    living = sum(not pod.is_finished for pod in pods)
    roles = (Role(name="pod", places=living, first=living, members=by_seniority(pods, living)),)
    options, problems = options_by_rank(roles, owners)
    return Gang(id=id, roles=roles, options=options, problems=problems, kind=kind, refused=why)
