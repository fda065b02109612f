"""Finds the objects above a pod: first its controllers, the nearest first, then the objects that the pod names, for
example in a label.

This module decides which object to read next, and when all are known. The caller reads the objects.
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
    """Why an object above a pod, such as its owner, could not be read. The value is the end of a message."""

    UNKNOWN = "which could not be read yet"
    GONE = "which does not exist"
    UNREADABLE = "it or its kind cannot be read"


LookUp = Callable[[Link], Owner | Absence]


class Above(msgspec.Struct, frozen=True, kw_only=True):
    """The objects above a pod that could be read (`owners`), with the links to them. `waits_for`: the link to an object
    that must be read before the pod's gang can be found, None if there is none; `absence` says why that object is
    missing.
    """

    links: tuple[Link, ...] = ()
    owners: Owners = ()
    waits_for: Link | None = None
    absence: Absence = Absence.UNKNOWN


def explain_absence(above: Above, *, unreadable: str) -> str:
    """Say for which object above a pod sunkpy still waits, and why that object is missing; empty if it waits for none.
    `unreadable`: the words for an object that exists and that sunkpy cannot read.
    """
    if above.waits_for is None:
        return ""
    why = f"and {unreadable}" if above.absence is Absence.UNREADABLE else above.absence.value
    return f"it belongs to {above.waits_for}, {why}"


def kinds_read(families: Iterable[Family]) -> frozenset[Kind]:
    """Return the kinds of owners of which some family (kind of workload) needs more than the metadata."""
    return frozenset(kind for family in families for kind in family.reads)


def climb(pod: Pod, families: Iterable[Family], look_up: LookUp) -> Above:
    """Find all objects above a pod: its controllers and the objects that it names. If one of them must be read before
    the pod's gang can be found, `Above.waits_for` says which. `look_up` returns an object, or why it is missing.

    The chain has at most six controllers, and ends at a controller that is gone (its pods are about to be deleted). It
    also ends at a controller that cannot be read, whose annotations then do not count; but if a family (kind of
    workload) needs to read that controller's kind, the pod waits. If a family reads the kind of an object that the pod
    names, the pod waits until that object exists and can be read. For a kind that no family reads, the metadata is
    enough.
    """
    families = tuple(families)
    needed = kinds_read(families)

    def look_up_needed(link: Link) -> Owner | Absence:
        found = look_up(link)
        return Absence.UNREADABLE if isinstance(found, OddOwner) and link.kind in needed else found

    chain = _controllers(pod, needed, look_up_needed)
    if chain.waits_for is not None:
        return chain
    links, owners = list(chain.links), list(chain.owners)
    # Several families may name the same object: it is read once.
    for link in dict.fromkeys(link for family in families for link in family.refers(pod)):
        found = look_up_needed(link)
        if isinstance(found, Owner):
            owners.append(found)
        elif link.kind in needed or found is Absence.UNKNOWN:
            return Above(links=(*links, link), waits_for=link, absence=found)
        else:
            continue
        links.append(link)
    return Above(links=tuple(links), owners=tuple(owners))


def _controllers(pod: Pod, needed: Container[Kind], look_up: LookUp) -> Above:
    links: list[Link] = []
    owners: list[Owner] = []
    below: KubeObject = pod
    while len(owners) < MOST_CONTROLLERS and (reference := controller_of(below)) is not None:
        link = Link.to(reference, pod.metadata.namespace)
        if link in links:
            break  # owners in a circle
        found = look_up(link)
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
    """Return the owner reference to the object's controller (`controller: true`); None if the object has no
    controller.
    """
    return next((reference for reference in child.metadata.owner_references if reference.controller), None)
