"""The family of pods that annotations of sunkpy make a gang, whoever owns the pods.

    sunkpy.dev/gang: solver                    pods with the same value in one namespace are one gang
    sunkpy.dev/gang-size: "5"                  the number of pods

or, if the pods have several roles, with these two in place of `gang-size`:

    sunkpy.dev/gang-roles: "leader=1,worker=4" the number of pods of each role; the first role has the first ranks
    sunkpy.dev/gang-role: worker               the role of this pod

Each pod needs the annotations, so users write them into the pod template. All pods of a gang must declare the same
numbers. If both forms are used, the numbers of the roles must add up to the size. All pods must exist before the job is
submitted. If one Indexed Job or StatefulSet numbers the pods of a role, these numbers are the ranks; if not, the oldest
pods come first. Pods beyond the declared number get jobs of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from sunkpy.core import names
from sunkpy.core.gang.families.batch_job import as_made
from sunkpy.core.gang.families.belonging import named_id
from sunkpy.core.gang.families.declaration import BadDeclaration, about, current, few, options_of, role, size_in
from sunkpy.core.gang.gang import Family, Gang, Owners
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Pod

_ROLE: Final = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")
_ONLY: Final = "pod"


def _identify(pod: Pod, _owners: Owners) -> GangId | None:
    name = pod.annotations.get(names.ANNOTATION_GANG, "").strip()
    return named_id(pod, names.ANNOTATION_GANG, name) if name else None


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    seats = _declared(id, current(pods))
    by_role = _by_role(pods, seats)
    options, problems = options_of(pods, owners)
    roles = tuple(role(name, by_role[name], number) for name, number in seats.items())
    return as_made(Gang(id=id, roles=roles, options=options, problems=problems, kind=f"gang {id}"), pods, owners)


def _declared(id: GangId, pods: Sequence[Pod]) -> Mapping[str, int]:
    """Return the number of pods that the annotations declare for each role, in rank order; a gang without roles has the
    role `pod`.
    """
    size, roles = _agreed(pods, names.ANNOTATION_GANG_SIZE), _agreed(pods, names.ANNOTATION_GANG_ROLES)
    if not size and not roles:
        raise BadDeclaration(f"missing: write how many pods gang {id} has", annotation=names.ANNOTATION_GANG_SIZE)
    total = _number(names.ANNOTATION_GANG_SIZE, size) if size else 0
    if not roles:
        return {_ONLY: total}
    seats = _roles(roles)
    if size and sum(seats.values()) != total:
        text = f"is {total}, but {names.ANNOTATION_GANG_ROLES} adds up to {sum(seats.values())}"
        raise BadDeclaration(text, annotation=names.ANNOTATION_GANG_SIZE)
    return seats


def _agreed(pods: Sequence[Pod], annotation: str) -> str:
    """Return the value that the annotation has on all these pods; empty if none of them has it.

    Raises:
        BadDeclaration: the pods have different values, or only some of them have the annotation.
    """
    said: dict[str, str] = {}
    for pod in sorted(pods, key=lambda pod: pod.name):
        said.setdefault(pod.annotations.get(annotation, "").strip(), pod.name)
    if len(said) > 1:
        one, other = list(said.items())[:2]
        text = f"pods of a gang must agree: {one[1]} says {one[0][:40] or 'nothing'!r}"
        text = f"{text}, {other[1]} says {other[0][:40] or 'nothing'!r}"
        raise BadDeclaration(text, annotation=annotation)
    return next(iter(said), "")


def _number(annotation: str, text: str) -> int:
    with about(annotation=annotation):
        return size_in(text)


def _roles(text: str) -> Mapping[str, int]:
    seats: dict[str, int] = {}
    with about(annotation=names.ANNOTATION_GANG_ROLES):
        parts = few(text.split(","), field="it")
    for part in parts:
        name, equals, number = (piece.strip() for piece in part.partition("="))
        if not equals or not _ROLE.match(name):
            text = f"{part[:40]!r} is not a role: write name=count, as in leader=1,worker=4"
            raise BadDeclaration(text, annotation=names.ANNOTATION_GANG_ROLES)
        if name in seats:
            raise BadDeclaration(f"role {name} is named twice", annotation=names.ANNOTATION_GANG_ROLES)
        seats[name] = _number(names.ANNOTATION_GANG_ROLES, number)
    return seats


def _by_role(pods: Sequence[Pod], seats: Mapping[str, int]) -> Mapping[str, list[Pod]]:
    if _ONLY in seats and len(seats) == 1:
        return {_ONLY: list(pods)}
    found: dict[str, list[Pod]] = {name: [] for name in seats}
    for pod in pods:
        name = pod.annotations.get(names.ANNOTATION_GANG_ROLE, "").strip()
        if name not in found:
            said = f"the role {name[:40]!r}, which is not declared" if name else "no role"
            text = f"pod {pod.name} has {said}: use one of {', '.join(seats)}"
            raise BadDeclaration(text, annotation=names.ANNOTATION_GANG_ROLE)
        found[name].append(pod)
    return found


FAMILY = Family(
    name="annotated gang",
    known_by="annotations sunkpy.dev/gang and gang-size, or gang-roles",
    identify=_identify,
    assemble=_assemble,
)
