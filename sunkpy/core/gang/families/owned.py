"""What families share whose owner declares sizes: finding the owner, reading what it declares, saying what is wrong.

What an owner declares is read as its operator reads it: null is absent, and a quantity may be written as a number, for
a CustomResourceDefinition keeps it as it came. A number that cannot be right, or an owner that cannot be read, keeps
the gang out of Slurm and is told to the user; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from sunkpy.core.gang.gang import ANY_PLACE, Gang, Member, Owners, Role, Suspension, by_seniority, ranked
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.options import JobOptions, Problem, read_options
from sunkpy.core.model.objects import Condition, Kind, Owner, OwnerReference, Pod, PodSpec, Wire

T = TypeVar("T")

Assemble = Callable[[GangId, Sequence[Pod], Owners], Gang]

JOB: Final = Kind(group="batch", kind="Job")

MOST_PLACES: Final = 65_533
"""The most nodes that Slurm gives to one job (slurm.conf, MaxNodes)."""

_AMOUNTS: Final = ("resources", "overhead")
"""Fields of a pod template below which every number is a quantity."""


class Undeclared(ValueError):
    """What the owner declares makes no gang, or cannot be read; the text is for the user."""


class Template(Wire, frozen=True, kw_only=True):
    """A pod template; its metadata is on the pods."""

    spec: PodSpec = PodSpec()


class Conditions(Wire, frozen=True, kw_only=True):
    """A status that tells by conditions what has become of the owner."""

    conditions: tuple[Condition, ...] = ()

    def has(self, types: Collection[str]) -> bool:
        """One of these conditions is True."""
        return any(condition.type in types and condition.status == "True" for condition in self.conditions)


def nearest(owners: Owners, *kinds: Kind) -> Owner | None:
    """The first of the owners that is of one of these kinds."""
    return next((owner for owner in owners if owner.is_a in kinds), None)


def required(owners: Owners, kind: Kind, id: GangId) -> Owner:
    """The owner of this kind.

    Raises:
        Undeclared: it could not be read.
    """
    found = nearest(owners, kind)
    if found is None:
        what = f"{kind.kind} {id.namespace}/{id.name}"
        raise Undeclared(f"{what} could not be read, and nothing else says how many pods belong together")
    return found


def reference(pod: Pod, owners: Owners, kind: Kind) -> OwnerReference | None:
    """Who of this kind is responsible for the pod, directly or through its owners, whether it could be read or not."""
    for child in (pod, *owners):
        for each in child.metadata.owner_references:
            if each.controller and each.kind == kind.kind and each.api_version.rpartition("/")[0] == kind.group:
                return each
    return None


def declared(owner: Owner, type_: type[T]) -> T:
    """The owner's spec, as its operator reads it.

    Raises:
        msgspec.ValidationError: it does not look like that.
    """
    return msgspec.convert(_as_read(msgspec.json.decode(owner.spec)), type_)


def _as_read(value: object, *, is_amount: bool = False) -> object:
    if isinstance(value, dict):
        return {
            key: _as_read(each, is_amount=is_amount or key in _AMOUNTS)
            for key, each in value.items()
            if each is not None
        }
    if isinstance(value, list):
        return [_as_read(each, is_amount=is_amount) for each in value]
    return str(value) if is_amount and isinstance(value, int | float) else value


def count(owner: Owner, field: str, number: int, *, least: int = 0) -> int:
    """A number of pods from the owner's spec.

    Raises:
        Undeclared: it is too small or too large.
    """
    where = f"{owner.kind} {'/'.join(owner.key)}: {field} is {number}"
    if number < least:
        raise Undeclared(f"{where}, and must be at least {least}")
    if number > MOST_PLACES:
        raise Undeclared(f"{where}, and Slurm gives at most {MOST_PLACES} nodes to a job")
    return number


def ordinal(text: str | None) -> int:
    """A label or annotation that numbers a pod → its number, or ANY_PLACE when it does not."""
    return int(text) if text and len(text) < 10 and text.isascii() and text.isdigit() else ANY_PLACE


def numbered(pods: Iterable[Pod], index_of: Callable[[Pod], int], places: int) -> tuple[Member, ...]:
    """Members of a role whose family numbers them, those whose number has a place."""
    return tuple(member for member in ranked(pods, index_of) if 0 <= member.index < places)


def waiting_role(role: Role, template: Template) -> Role:
    """A role some of whose pods appear only when others run: its template says what they will ask for."""
    return msgspec.structs.replace(role, shape=template.spec) if role.first < role.places else role


def is_alive(owner: Owner, over: Collection[str], *, suspended: bool) -> bool:
    """The owner still wants its pods: it is not being deleted, not suspended, and has none of the conditions `over`."""
    return not owner.is_deleting and not suspended and not owner.status_as(Conditions).has(over)


def suspension(owner: Owner, *path: str) -> Suspension | None:
    """The owner as something to suspend, unless somebody above it would undo that."""
    is_free = not any(each.controller for each in owner.metadata.owner_references)
    return Suspension(owner=owner, path=path) if is_free else None


def make(gang: Gang, owners: Owners) -> Gang:
    """The gang, with the options that the first pod of each role and the owners carry.

    Raises:
        Undeclared: it has no places, or more than a job can have.
    """
    if not 0 < gang.places <= MOST_PLACES:
        raise Undeclared(f"{gang.kind} declares {gang.places} pods, and a job has between 1 and {MOST_PLACES}")
    options, problems = _options([role.members[0].pod for role in gang.roles if role.members], owners)
    return msgspec.structs.replace(gang, options=options, problems=problems)


def _options(pods: Iterable[Pod], owners: Owners) -> tuple[JobOptions, tuple[Problem, ...]]:
    return read_options([each.annotations for each in (*pods, *owners) if each.annotations])


def told(assemble: Assemble) -> Assemble:
    """`assemble`, of which what is Undeclared becomes a fatal problem of a gang that keeps the pods that are there."""

    def tell(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
        try:
            return assemble(id, pods, owners)
        except Undeclared as error:
            options, problems = _options(pods[:1], owners)
            role = Role(name="pod", places=len(pods), first=len(pods), members=by_seniority(pods, len(pods)))
            problem = Problem(text=str(error), fatal=True)
            return Gang(id=id, roles=(role,), options=options, problems=(*problems, problem), kind=_kind(id, owners))

    return tell


def _kind(id: GangId, owners: Owners) -> str:
    return next((f"{owner.kind} {id}" for owner in owners if owner.uid == id.uid), str(id))
