"""The way up from a pod: its controllers, nearest first, then the objects that its family says it names.

What is up there is somebody else's to look up; here is only which object to look for next, and when all are found.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Container, Iterable
from typing import Final

import msgspec

from sunkpy.core.gang.gang import Family, Link, Owners
from sunkpy.core.model.objects import Kind, KubeObject, OddOwner, Owner, OwnerReference, Pod

MOST_CONTROLLERS: Final = 6


class Absence(enum.Enum):
    """Why an object is not at hand."""

    UNKNOWN = "which could not be read yet"
    GONE = "which does not exist"
    UNREADABLE = "it or its kind cannot be read"


Look = Callable[[Link], Owner | Absence]


class Above(msgspec.Struct, frozen=True, kw_only=True):
    """The objects above a pod. `waits_for`: the object without which nobody can tell to which gang the pod belongs, and
    why it is not there.
    """

    links: tuple[Link, ...] = ()
    owners: Owners = ()
    waits_for: Link | None = None
    absence: Absence = Absence.UNKNOWN


def explain_absence(above: Above, *, unreadable: str) -> str:
    """Why it is not known what stands above a pod; `unreadable`: what is in the way of reading that object."""
    if above.waits_for is None:
        return ""
    why = f"and {unreadable}" if above.absence is Absence.UNREADABLE else above.absence.value
    return f"it belongs to {above.waits_for}, {why}"


def kinds_read(families: Iterable[Family]) -> frozenset[Kind]:
    """Kinds without which some family cannot tell what a pod is."""
    return frozenset(kind for family in families for kind in family.reads)


def climb(pod: Pod, families: Iterable[Family], look: Look) -> Above:
    """Climb to all owners above a pod, or find out which object has to be read first.

    A controller that is gone ends the chain: its pods are about to be collected. One that cannot be read ends it too,
    and costs its annotations, unless a family needs it. An object that is named must be there, if a family reads it.
    For a kind that no family reads the metadata is enough, even if the rest cannot be read.
    """
    families = tuple(families)
    needed = kinds_read(families)

    def look_at(link: Link) -> Owner | Absence:
        found = look(link)
        return Absence.UNREADABLE if isinstance(found, OddOwner) and link.kind in needed else found

    chain = _controllers(pod, needed, look_at)
    if chain.waits_for is not None:
        return chain
    links, owners = list(chain.links), list(chain.owners)
    # Each object once, though several families may know its name.
    for link in dict.fromkeys(link for family in families for link in family.refers(pod)):
        found = look_at(link)
        if isinstance(found, Owner):
            owners.append(found)
        elif link.kind in needed or found is Absence.UNKNOWN:
            return Above(links=(*links, link), waits_for=link, absence=found)
        else:
            continue
        links.append(link)
    return Above(links=tuple(links), owners=tuple(owners))


def _controllers(pod: Pod, needed: Container[Kind], look: Look) -> Above:
    links: list[Link] = []
    owners: list[Owner] = []
    below: KubeObject = pod
    while len(owners) < MOST_CONTROLLERS and (reference := controller_of(below)) is not None:
        link = Link.to(reference, pod.metadata.namespace)
        if link in links:
            break  # owners in a circle
        found = look(link)
        if isinstance(found, Owner):
            links.append(link)
            owners.append(found)
            below = found
        elif found is Absence.UNKNOWN or (found is Absence.UNREADABLE and link.kind in needed):
            return Above(links=(*links, link), waits_for=link, absence=found)
        else:
            break
    return Above(links=tuple(links), owners=tuple(owners))


def controller_of(child: KubeObject) -> OwnerReference | None:
    """The owner that is responsible for an object, if there is one."""
    return next((reference for reference in child.metadata.owner_references if reference.controller), None)
