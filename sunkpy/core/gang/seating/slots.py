"""Plans the shape of a gang's job: equal *slots*, which are Slurm tasks. Each slot has room for one seat or several,
and a seat is room for one pod.

Slurm's tasks are all alike. A heterogeneous job has several kinds of tasks, but only the backfill scheduler starts it.
So a gang whose pods need different amounts gets one of two shapes, each of which covers the needs of all pods:

* a slot for each seat, as large as the largest pod, resource by resource;
* a slot for each seat of the heaviest role, with the seats of other roles added in turn: a launcher joins worker 0.

A shape whose slots fit a node is preferred. Among such shapes the one that asks for least is taken, comparing GPUs
first, then cpus, then memory. The first shape is always taken for a gang with one role, with one node for each pod, or
with too many roles for the job's comment. It is exact if all pods are alike. Each pod is rounded up to whole cpus and
MiB, as `sunkpy.core.placement.needs` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from typing import Final

import msgspec

from sunkpy.core.gang.gang import Gang, Role
from sunkpy.core.gang.identity import WHOLE, JobKind, role_word, shared_kind
from sunkpy.core.model import matching
from sunkpy.core.model.alike import template_of
from sunkpy.core.placement.eligibility import Eligibility
from sunkpy.core.placement.needs import counted, rounded

SeatId = tuple[str, int]
"""The name of a role, and the index of a seat in it."""

NO_GRES: Final[Mapping[str, str]] = {}


class Slots(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of a gang's job: `count` equal slots (Slurm tasks), each of which asks for `needs` (cpu in millicores,
    memory in bytes, other resources as counts).

    `kind`: how the slots were chosen for the pods, as written in the job's comment; None if only one shape is possible.
    """

    count: int
    needs: matching.Amounts
    kind: JobKind | None = None

    @property
    def ask(self) -> tuple[int, int, int]:
        """What all slots ask for together: devices, cpus in millicores, memory in bytes. Shapes are compared in this
        order.
        """
        devices, cpus, memory = size_of(self.needs)
        return (self.count * devices, self.count * cpus, self.count * memory)


def size_of(needs: Mapping[str, int]) -> tuple[int, int, int]:
    """Return the devices, cpus (millicores) and memory (bytes) of these needs, in the order in which sizes are
    compared. All extended resources count as devices.
    """
    devices = sum(amount for name, amount in needs.items() if "/" in name)
    return (devices, needs.get("cpu", 0), needs.get("memory", 0))


def plan_slots(gang: Gang, eligibility: Eligibility | None = None, gpu_resources: Mapping[str, str] = NO_GRES) -> Slots:
    """Return the shape of the gang's job that asks for least, among the possible shapes whose slots (tasks) fit an
    eligible node, or among all if none fits. `gpu_resources`: extended resource → GRES.
    """

    def rank(slots: Slots) -> tuple[bool, bool, tuple[int, int, int]]:
        if eligibility is None:
            return (False, False, slots.ask)
        # Daemons take a part of a node's cpus, and needs are rounded up: a slot may exceed a node by less than a cpu.
        needs = counted(slots.needs, gpu_resources, gpu_type=gang.options.gpu_type)
        less = {**needs, "cpu": needs["cpu"] - 999}
        return (not eligibility.has_room_for(needs), not eligibility.has_room_for(less), slots.ask)

    return min(_shapes(gang), key=rank)


def slot_of_each_seat(gang: Gang, tasks: int, kind: JobKind | None) -> dict[SeatId, int]:
    """Return the number of the slot (Slurm task) in which each seat (room for one pod) of the gang lies, in a job with
    `tasks` slots of this kind. A seat for which the job has no slot gets a number that no slot has.

    The gang may have changed since the job was made for it.
    """
    if kind is not None and kind.seats and 0 < tasks < gang.seats and not gang.one_per_node:
        return _as_shared(gang, kind.seats)
    return {seat: at for at, seat in enumerate(seats_of(gang))}


def is_for_as_many(gang: Gang, tasks: int, kind: JobKind | None) -> bool:
    """True if a job with `tasks` slots has as many as the gang needs now: all seats of the gang have a slot, and no
    slot is left over.
    """
    return tasks == gang.seats or set(slot_of_each_seat(gang, tasks, kind).values()) == set(range(tasks))


def _as_shared(gang: Gang, asked: Sequence[tuple[str, int]]) -> dict[SeatId, int]:
    """Return the number of the slot (task) of each seat in a job whose slots are shared: each seat of the first role
    has a slot of its own, and the seats of the other roles are put into these slots in turn. `asked`: each role, and
    the number of its seats when the job was submitted.
    """
    (first, count), *others = asked
    seats, before = dict(asked), {first: 0}
    for (word, _), total in zip(others, accumulate((count for _, count in others), initial=0), strict=False):
        before[word] = total
    slots: dict[SeatId, int] = {}
    for at, (role, index) in enumerate(seats_of(gang)):
        word = role_word(role)
        slots[role, index] = (before[word] + index) % count if index < seats.get(word, 0) else count + at
    return slots


def seats_of(gang: Gang) -> list[SeatId]:
    """Return all seats of the gang (role and index) in rank order, whether they have a pod or not."""
    return [(role.name, index) for role in gang.roles for index in range(role.seats)]


def largest(several: Iterable[Mapping[str, int]]) -> matching.Amounts:
    """Return, for each resource, the largest amount in any of these needs. cpu and memory are at least what Slurm holds
    for a pod without requests.
    """
    largest = rounded({})
    for needs in several:
        largest = {name: max(largest.get(name, 0), needs.get(name, 0)) for name in {**largest, **needs}}
    return largest


def needs_of_seats(role: Role) -> list[matching.Amounts]:
    """Return what each seat of a role needs (a seat is room for one pod), rounded up for each pod. First come the seats
    with a pod, the largest first.

    If a seat has had several pods, the last one counts. A seat without a pod needs the most that the owner's template
    or any existing pod of the role asks for: admission may have added requests to the pods.
    """
    of_member = _rounded_needs(role)
    there = sorted((of_member[pod.uid] for pod in role.last_tries), key=size_of, reverse=True)[: role.seats]
    if len(there) < role.seats:
        shape = [rounded(matching.pod_requests(role.shape))] if role.shape is not None else []
        there += [largest([*of_member.values(), *shape])] * (role.seats - len(there))
    return there


def _rounded_needs(role: Role) -> dict[str, matching.Amounts]:
    """Return what each existing pod of the role needs, rounded up as Slurm counts it, by pod uid. Pods in a row that
    have the same template are computed once.
    """
    needs: dict[str, matching.Amounts] = {}
    before: tuple[object, ...] = ()
    amounts: matching.Amounts = {}
    for pod in (member.pod for member in role.members):
        if (own := template_of(pod.spec)) != before:
            before, amounts = own, rounded(matching.pod_requests(pod.spec))
        needs[pod.uid] = amounts
    return needs


def _shapes(gang: Gang) -> list[Slots]:
    roles = [(role, largest(needs_of_seats(role))) for role in gang.roles if role.seats]
    each = largest(needs for _, needs in roles)
    alone = Slots(count=gang.seats, needs=each, kind=WHOLE if len(roles) > 1 else None)
    if gang.one_per_node or len(roles) < 2:
        return [alone]
    heaviest, _ = max(roles, key=lambda each: size_of(each[1]))
    roles.sort(key=lambda each: each[0] is not heaviest)
    kind = shared_kind([(role.name, role.seats) for role, _ in roles])
    if kind is None:
        return [alone]
    fullest = _fullest_slot([(role.seats, needs) for role, needs in roles])
    return [alone, Slots(count=heaviest.seats, needs=fullest, kind=kind)]


def _fullest_slot(roles: Sequence[tuple[int, matching.Amounts]]) -> matching.Amounts:
    """Return the largest amount of each resource in any slot (task), if each seat of the first role has a slot and the
    seats of the other roles are put into these slots in turn. `roles`: for each role, its number of seats and what one
    seat needs.
    """
    (slots, own), *others = roles
    in_turn = [at for at, (seats, _) in enumerate(others) for _ in range(seats)]
    # Most slots hold the same.
    contents = {tuple(in_turn[slot::slots]) for slot in range(slots)}
    return largest(reduce(matching.added, (others[at][1] for at in content), own) for content in contents)
