"""Who sits where: the members of a gang on the places that its job holds.

The slots of the job lie on its nodes in Slurm's own order, switch by switch where it is known which node is at which,
and the places in the slots in rank order: rank 0 is on the first node, neighbours in rank are neighbours there. Who has
a node keeps it, so the same seats come out again when a new leader knows nothing but the bindings.

A finished member has left its place. One that is being deleted holds it until it is gone, and the pod that was made in
its stead waits for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.gang import ANY_PLACE, Gang, Member, Role
from sunkpy.core.gang.slots import Place, packing
from sunkpy.core.model.layout import Layout
from sunkpy.core.model.room import Room


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a member, and the Slurm node where the job holds it."""

    place: Place
    node: str

    @property
    def note(self) -> str:
        """As it stands on the pod: `worker/3`."""
        return f"{self.place[0]}/{self.place[1]}"


def assign(gang: Gang, layout: Layout, rooms: Mapping[str, Room], *, holding: Mapping[str, str]) -> dict[str, Seat]:
    """Seats by uid, of members that have nodes and of those that may take one now.

    A member that finds no free place, or none of which the job has a node, has no seat.

    Args:
        rooms: what the job has of each of its nodes, as far as Slurm has said.
        holding: the Slurm node of each member that has one and has not ended, by uid; empty where it is not known.
    """
    slots = packing(gang, layout, rooms)
    taken = _held(gang, slots, layout, holding)
    nodes = _nodes(slots, layout, taken, holding)
    for role in gang.roles:
        at = _nodes_of(role, slots, nodes)
        free = (place for place, node in at.items() if node and place not in taken)
        for member in _waiting(role, holding):
            place = _place_wanted(role, member, taken, at=at, free=free)
            if place is not None:
                taken[place] = member
    seats = {m.pod.uid: Seat(place=place, node=nodes.get(slots[place], "")) for place, m in taken.items()}
    return {uid: msgspec.structs.replace(seat, node=holding.get(uid, seat.node)) for uid, seat in seats.items()}


def find_places(
    gang: Gang, layout: Layout, rooms: Mapping[str, Room], *, holding: Mapping[str, str]
) -> dict[Place, str]:
    """The node of each place, whether there is a pod for it or not; empty where the job has none. As in `assign`."""
    slots = packing(gang, layout, rooms)
    nodes = _nodes(slots, layout, _held(gang, slots, layout, holding), holding)
    return {place: nodes.get(slot, "") for place, slot in slots.items()}


def explain_missing(gang: Gang) -> str:
    """Which pods of the first wave are not there: `2 of 4 pods (worker 1 of 3)`; empty when all are.

    Those that succeeded have done their part, as have those that have a job of their own; those that are on their way
    out have not.
    """
    have = {role.name: min(_present(role), role.first) for role in gang.roles}
    lacking = [role for role in gang.roles if have[role.name] < role.first]
    if not lacking:
        return ""
    total = sum(role.first for role in gang.roles)
    roles = ", ".join(f"{role.name} {have[role.name]} of {role.first}" for role in lacking)
    return f"{total - sum(have.values())} of {total} pods ({roles})"


def _present(role: Role) -> int:
    there = [m for m in (*role.members, *role.elsewhere) if not m.pod.is_deleting and m.pod.status.phase != "Failed"]
    numbered = {member.index for member in there if member.index != ANY_PLACE}
    return len(numbered) + sum(member.index == ANY_PLACE for member in there)


def _held(gang: Gang, slots: Mapping[Place, int], layout: Layout, holding: Mapping[str, str]) -> dict[Place, Member]:
    """The places of the members that have nodes."""
    planned = dict(enumerate(_expanded(layout)))
    taken: dict[Place, Member] = {}
    for role in gang.roles:
        at = _nodes_of(role, slots, planned)
        for member in _holders(role, holding):
            place = _place_held(role, member, taken, at=at, node=holding[member.pod.uid])
            if place is not None:
                taken[place] = member
    return taken


def _holders(role: Role, holding: Mapping[str, str]) -> list[Member]:
    """Members that have nodes: those whose place is known first."""
    held = [member for member in role.members if member.pod.uid in holding]
    return sorted(held, key=lambda m: (m.index == ANY_PLACE, _noted(role, m) is None, *_seniority(m)))


def _waiting(role: Role, holding: Mapping[str, str]) -> list[Member]:
    """Members that may take a place, in rank order."""
    waiting = (m for m in role.members if m.pod.uid not in holding and not m.pod.spec.node_name)
    return sorted((m for m in waiting if not m.pod.is_deleting and not m.pod.is_finished), key=_seniority)


def _seniority(member: Member) -> tuple[int, str, str]:
    return (member.index, member.pod.metadata.creation_timestamp, member.pod.name)


def _noted(role: Role, member: Member) -> Place | None:
    """The place that the pod's annotation names, if it is one."""
    name, _, text = member.pod.annotations.get(names.ANNOTATION_PLACE, "").rpartition("/")
    # Anybody who may edit the pod can write it.
    index = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else ANY_PLACE
    return (name, index) if name == role.name and 0 <= index < role.places else None


def _place_held(
    role: Role, member: Member, taken: Mapping[Place, Member], *, at: Mapping[Place, str], node: str
) -> Place | None:
    """The place of a member that has a node: its number, what was noted, else one that would be on that node."""
    if member.index != ANY_PLACE:
        return _own(role, member, taken)
    noted = _noted(role, member)
    if noted is not None and noted not in taken:
        return noted
    free = [place for place in at if place not in taken]
    return next((place for place in free if at[place] == node), free[0] if free else None)


def _place_wanted(
    role: Role, member: Member, taken: Mapping[Place, Member], *, at: Mapping[Place, str], free: Iterator[Place]
) -> Place | None:
    """The place for a member that has no node, if it is free and the job has a node for it.

    `free`: the free ones that the job has nodes for, each once: a gang of hundreds is seated for each of its prologs.
    """
    if member.index != ANY_PLACE:
        place = _own(role, member, taken)
        return place if place is not None and at[place] else None
    return next(free, None)


def _own(role: Role, member: Member, taken: Mapping[Place, Member]) -> Place | None:
    place = (role.name, member.index)
    return place if 0 <= member.index < role.places and place not in taken else None


def _nodes_of(role: Role, slots: Mapping[Place, int], nodes: Mapping[int, str]) -> dict[Place, str]:
    """The node of each place of a role; empty where the job has none for it."""
    places = ((role.name, index) for index in range(role.places))
    return {place: nodes.get(slots[place], "") for place in places}


def _nodes(
    slots: Mapping[Place, int], layout: Layout, taken: Mapping[Place, Member], holding: Mapping[str, str]
) -> dict[int, str]:
    """The node of each slot: where its members are, and for the others what is left, in order.

    Members may have no place any more, because the gang is declared smaller now, and be there. Others may be on a node
    that the job gave up: that is the node of no slot.
    """
    nodes: dict[int, str] = {}
    left = dict(layout)
    used: set[tuple[int, str]] = set()
    for place, member in taken.items():
        node = holding[member.pod.uid]
        if not node or node in left:
            nodes.setdefault(slots[place], node)
            used.add((slots[place], node))
    seated = {member.pod.uid for member in taken.values()}
    standing = [node for uid, node in holding.items() if uid not in seated]
    # Places of one slot, on two nodes: the job was made for another shape, and each of them has a slot there.
    for node in (*(node for _, node in used), *standing):
        left[node] = left.get(node, 0) - 1
    free = iter(_expanded((node, left[node]) for node, _ in layout))
    for slot in sorted(set(slots.values())):
        if slot not in nodes and (node := next(free, "")):
            nodes[slot] = node
    return nodes


def _expanded(layout: Iterable[tuple[str, int]]) -> list[str]:
    """The node of each slot in order."""
    return [node for node, count in layout for _ in range(count)]
