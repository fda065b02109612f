"""Assigns the pods of a gang to the seats that its job has. A seat is room in the job for one pod.

The job has slots (Slurm tasks), and each slot has one seat or several. The slots lie on the job's nodes in Slurm's
order, grouped by switch where the switches are known. The seats lie in the slots in rank order: rank 0 is on the first
node, and pods that are neighbours in rank are neighbours there. A pod that has a node keeps it, so a new leader that
knows only the bindings computes the same seating.

A finished pod has left its seat. A pod that is being deleted keeps its seat until it is gone, and the pod that replaces
it waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.gang import ANY_SEAT, Gang, Member, Role
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.phases import PodPhase, pod_phase
from sunkpy.core.gang.seating.slots import SeatId, plan_slots, slot_of_each_seat
from sunkpy.core.model.layout import Layout, spread

NO_NODES_NAMED: Final[Mapping[str, str]] = {}


class Seat(msgspec.Struct, frozen=True):
    """The seat of a pod (its room in the job): its id, and the Slurm node where the job has this room."""

    id: SeatId
    node: str

    @property
    def note(self) -> str:
        """The seat as it is written in the pod's annotation, `<role>/<index>`: `worker/3`."""
        return f"{self.id[0]}/{self.id[1]}"


class Seating(msgspec.Struct, frozen=True, kw_only=True):
    """Which pod of a gang has which seat (its room in the job) under one job.

    Args:
        seats: by pod uid, the seats of pods that have nodes, and of pods that may get a node now. A pod is missing here
            if no free seat of its role has a node.
        nodes: the Slurm node of each seat of the gang, whether the seat has a pod or not; empty text if the job has no
            node for it.
        holding: by pod uid, the Slurm node of each pod that has one and has not ended; empty text if the node is
            unknown.
    """

    seats: Mapping[str, Seat]
    nodes: Mapping[SeatId, str]
    holding: Mapping[str, str]


def seat(
    gang: Gang, job: Job, *, holding: Mapping[str, str], named_nodes: Mapping[str, str] = NO_NODES_NAMED
) -> Seating:
    """Return which pod of the gang has which seat (its room in the job), and on which node, under this job.

    Args:
        holding: by pod uid, the Slurm node of each pod that has one and has not ended; empty text if it is unknown.
        named_nodes: by pod uid, the Slurm node that the pod names, if each pod is made for a node
            (`seating.named_nodes`).
    """
    layout = _layout(gang, job)
    slots, has = slot_of_each_seat(gang, sum(count for _, count in layout), job.kind), {node for node, _ in layout}
    named = {m.pod.uid for role in gang.roles for m in role.members if pod_phase(m.pod) is PodPhase.WAITING}
    there = {uid: node for uid, node in named_nodes.items() if uid in named and node in has} | dict(holding)
    taken = _held(gang, there)
    nodes = _nodes(slots, layout, taken, there)
    all_nodes = {seat: nodes.get(slot, "") for seat, slot in slots.items()}
    # A replacement has slots for the members that had nodes, and for no others.
    for role in () if job.is_replacement else gang.roles:
        # A generator looks at each free seat once: a gang of hundreds is seated for each of its Prologs.
        free = (seat for seat in _seats_of(role) if all_nodes[seat] and seat not in taken)
        for member in _waiting(role, there):
            found = next(free, None) if member.index == ANY_SEAT else _own(role, member)
            if found is not None and found not in taken and all_nodes[found]:
                taken[found] = member
    uids = {member.pod.uid: found for found, member in taken.items()}
    seats = {uid: Seat(found, there.get(uid, all_nodes[found])) for uid, found in uids.items()}
    if job.is_replacement:
        seats = {uid: each for uid, each in seats.items() if uid in holding}
    return Seating(seats=seats, nodes=all_nodes, holding=holding)


def _layout(gang: Gang, job: Job) -> Layout:
    """Return how many tasks the job has on each of its nodes. While Slurm has not reported that, the tasks are taken to
    be spread evenly.
    """
    if job.slurm.layout and {node for node, _ in job.slurm.layout} == set(job.nodes):
        return job.slurm.layout
    return spread(job.nodes, job.slurm.tasks or plan_slots(gang).count)


def _held(gang: Gang, holding: Mapping[str, str]) -> dict[SeatId, Member]:
    """Return the seats (room in the job) of the pods that have nodes, each with its pod. If the seats of a role are
    numbered, a pod holds the seat with its number. If not, it holds the seat in its annotation, or without one the
    first free seat of the role. Pods whose seat is known come first.
    """
    taken: dict[SeatId, Member] = {}
    for role in gang.roles:
        held = [member for member in role.members if member.pod.uid in holding]
        # A shared iterator looks at each seat once, however many members have neither number nor note.
        free = iter(_seats_of(role))
        for member in sorted(held, key=lambda m: (m.index == ANY_SEAT, _seat_in_note(role, m) is None, *_seniority(m))):
            is_numbered = member.index != ANY_SEAT
            known = _own(role, member) if is_numbered else _seat_in_note(role, member)
            others = () if is_numbered else free
            found = next((seat for seat in chain((known,), others) if seat is not None and seat not in taken), None)
            if found is not None:
                taken[found] = member
    return taken


def _waiting(role: Role, holding: Mapping[str, str]) -> list[Member]:
    waiting = (m for m in role.members if m.pod.uid not in holding and pod_phase(m.pod) is PodPhase.WAITING)
    return sorted(waiting, key=_seniority)


def _seniority(member: Member) -> tuple[int, str, str]:
    return (member.index, member.pod.metadata.creation_timestamp, member.pod.name)


def _seat_in_note(role: Role, member: Member) -> SeatId | None:
    """Return the seat (role and index) that the pod's annotation names; None if it names no seat of this role."""
    name, _, text = member.pod.annotations.get(names.ANNOTATION_PLACE, "").rpartition("/")
    # Anybody who may edit the pod can write it.
    index = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else ANY_SEAT
    return (name, index) if name == role.name and 0 <= index < role.seats else None


def _own(role: Role, member: Member) -> SeatId | None:
    """Return the seat whose index is that of the pod in its role; None if the role has no such seat."""
    return (role.name, member.index) if 0 <= member.index < role.seats else None


def _seats_of(role: Role) -> Iterable[SeatId]:
    return ((role.name, index) for index in range(role.seats))


def _nodes(
    slots: Mapping[SeatId, int], layout: Layout, taken: Mapping[SeatId, Member], holding: Mapping[str, str]
) -> dict[int, str]:
    """Return the node of each slot (task) of the job: the node of the pods in the slot, and for slots without pods the
    nodes that are left, in order.

    A pod may have a node but no seat any more, because the gang has become smaller: it uses up a slot there. A pod on a
    node that the job has given up determines the node of no slot.
    """
    nodes: dict[int, str] = {}
    left = dict(layout)
    used: set[tuple[int, str]] = set()
    for found, member in taken.items():
        node = holding[member.pod.uid]
        if not node or node in left:
            nodes.setdefault(slots[found], node)
            used.add((slots[found], node))
    seated = {member.pod.uid for member in taken.values()}
    standing = [node for uid, node in holding.items() if uid not in seated]
    # If members of one slot are on two nodes, the job was made for another shape: each node loses a free slot.
    for node in (*(node for _, node in used), *standing):
        left[node] = left.get(node, 0) - 1
    free = iter(_expanded((node, left[node]) for node, _ in layout))
    for slot in sorted(set(slots.values())):
        if slot not in nodes and (node := next(free, "")):
            nodes[slot] = node
    return nodes


def _expanded(layout: Iterable[tuple[str, int]]) -> list[str]:
    return [node for node, count in layout for _ in range(count)]
