"""The shape of a gang's job: equal *slots*, each with room for one place or several.

Slurm's tasks are all alike, and a heterogeneous job, which has them of several kinds, is started by backfill alone. So
uneven members get a *covering* shape, one of two:

* a slot for each place, as large as the largest member, resource by resource;
* a slot for each place of the heaviest role, with the others packed into them in turn: a launcher joins worker 0.

The one that asks for least is taken: GPUs count before cpus, cpus before memory. When all members are alike the first
is exact. Each pod is rounded up alone, to whole cpus and MiB, as `sunkpy.core.placement.needs` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from sunkpy.core.gang.gang import ANY_PLACE, Gang, Member, Role
from sunkpy.core.model import matching, quantity
from sunkpy.core.model.layout import Layout
from sunkpy.core.model.objects import PodSpec
from sunkpy.core.model.room import Room
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.core.placement.eligibility import Eligibility, size_of
from sunkpy.core.placement.needs import MINIMUM_MEMORY_MIB, whole_cpus

Place = tuple[str, int]
"""Role and index in it."""

_MIB = 2**20


class Slots(msgspec.Struct, frozen=True, kw_only=True):
    """`count` slots of `needs` each (millicores, bytes, counts), and in which of them each place is."""

    count: int
    needs: matching.Amounts
    of: dict[Place, int]

    @property
    def ask(self) -> tuple[int, int, int]:
        """What all slots ask together, as it is compared: devices, cpus, memory."""
        devices, cpus, memory = size_of(self.needs)
        return (self.count * devices, self.count * cpus, self.count * memory)


class _Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has, in `count` equal parts: one for each of its slots, or one for all. No memory: none is counted."""

    slots: int
    count: int
    each: Room


def plan_slots(gang: Gang, eligibility: Eligibility | None = None) -> Slots:
    """The shape that asks for least, of those whose slots fit a node.

    Raises:
        quantity.BadQuantity: a request is not a quantity.
    """

    def rank(slots: Slots) -> tuple[bool, bool, tuple[int, int, int]]:
        if eligibility is None:
            return (False, False, slots.ask)
        # Rounded up to whole cpus, and daemons take a part of one: a node may be too small by that alone.
        less = {**slots.needs, "cpu": slots.needs["cpu"] - 999}
        return (not eligibility.has_room_for(slots.needs), not eligibility.has_room_for(less), slots.ask)

    return min(_shapes(gang), key=rank)


def packing(gang: Gang, layout: Layout, rooms: Mapping[str, Room]) -> dict[Place, int]:
    """In which slot each place is under a job that lies so; one that has none is numbered beyond them.

    The gang may be another than the job was made for, and how many slots there are does not tell which shape it has: a
    gang of a leader and four workers, each in a slot of its own, that has grown to five workers has as many slots as
    workers, too. What tells is how large they are: places share slots if so more of them have one. A job of which that
    is not known has places that share slots if the gang as it is now would be asked for in so many.

    Args:
        rooms: what the job has, by Slurm node.
    """
    tasks = sum(count for _, count in layout)
    # Every prolog of a gang asks: the pods' requests are looked at only where places may share slots.
    if 0 < tasks < gang.places and len(gang.roles) > 1 and not gang.one_per_node:
        try:
            shared = _shared(gang, layout, rooms)
        except quantity.BadQuantity:
            shared = {}
        if sum(slot < tasks for slot in shared.values()) > tasks:
            return shared
    return {place: at for at, place in enumerate(places_of(gang))}


def may_have_asked(gang: Gang, tasks: int, layout: Layout = (), rooms: Mapping[str, Room] | None = None) -> bool:
    """A job of so many tasks is one for the gang as it is declared now; `layout` and `rooms` once it has nodes."""
    slots = packing(gang, layout or (("", tasks),), rooms or {})
    return tasks == gang.places or set(slots.values()) == set(range(tasks))


def places_of(gang: Gang) -> list[Place]:
    """All places in rank order."""
    return [(role.name, index) for role in gang.roles for index in range(role.places)]


def rounded(needs: Mapping[str, int]) -> matching.Amounts:
    """What Slurm holds for one pod: whole cpus, whole MiB, at least the minimum of both."""
    memory_mib = max(MINIMUM_MEMORY_MIB, quantity.mib_up(needs.get("memory", 0)))
    return {**needs, "cpu": whole_cpus(needs) * 1000, "memory": memory_mib * _MIB}


def largest(several: Iterable[Mapping[str, int]]) -> matching.Amounts:
    """Resource by resource, and not less than what a pod without requests takes."""
    largest = rounded({})
    for needs in several:
        largest = {name: max(largest.get(name, 0), needs.get(name, 0)) for name in {**largest, **needs}}
    return largest


def needs_by_place(gang: Gang) -> dict[Place, matching.Amounts]:
    """What each place must have room for, rounded up alone.

    A place whose pod is there: as that pod asks. One without: as the owner's template says, and not less than the
    other pods of its role, to which something may have been added on their way.
    """
    needs: dict[Place, matching.Amounts] = {}
    for role in gang.roles:
        numbered, others = _needs_of(role, _rounded_needs(role))
        needs |= {(role.name, index): numbered.get(index, others) for index in range(role.places)}
    return needs


def needs_together(gang: Gang) -> matching.Amounts:
    """What all places need on one node, where it makes no difference which pod has which.

    Raises:
        quantity.BadQuantity: a request is not a quantity.
    """
    total: matching.Amounts = {}
    for role in gang.roles:
        of_member = _rounded_needs(role)
        numbered, others = _needs_of(role, of_member)
        held = [needs for index, needs in numbered.items() if index < role.places]
        free = [member.pod for member in role.members if member.index == ANY_PLACE and not member.pod.is_finished]
        held += sorted((of_member[pod.uid] for pod in free), key=size_of, reverse=True)
        for needs in [*held, *[others] * role.places][: role.places]:
            total = matching.added(total, needs)
    return total


def _needs_of(
    role: Role, of_member: Mapping[str, matching.Amounts]
) -> tuple[dict[int, matching.Amounts], matching.Amounts]:
    """What the pods need that have a number, by it, and what any other place needs."""
    numbered = {member.index: of_member[member.pod.uid] for member in _latest_last(role) if member.index != ANY_PLACE}
    return numbered, largest([*of_member.values(), *_shape(role.shape)])


def _rounded_needs(role: Role) -> dict[str, matching.Amounts]:
    """By uid. Pods of one template ask alike, and are looked at once."""
    needs: dict[str, matching.Amounts] = {}
    before: tuple[object, ...] = ()
    amounts: matching.Amounts = {}
    for pod in (member.pod for member in role.members):
        spec = pod.spec
        asks = (spec.containers, spec.init_containers, spec.overhead, spec.resources)
        if asks != before:
            before, amounts = asks, rounded(matching.pod_requests(spec))
        needs[pod.uid] = amounts
    return needs


def _shapes(gang: Gang) -> list[Slots]:
    needs = needs_by_place(gang)
    alone = Slots(count=len(needs), needs=largest(needs.values()), of={place: at for at, place in enumerate(needs)})
    if gang.one_per_node or len(gang.roles) < 2 or not needs:
        return [alone]
    heaviest = _heaviest(gang)
    of = _packed_around(gang, heaviest, heaviest.places)
    sums: dict[int, matching.Amounts] = {}
    for place, slot in of.items():
        sums[slot] = matching.added(sums.get(slot, {}), needs[place])
    return [alone, Slots(count=len(sums), needs=largest(sums.values()), of=of)]


def _heaviest(gang: Gang) -> Role:
    """The role whose pods ask for most, of those that have places."""
    needs = needs_by_place(gang)
    heaviest, _ = max(needs, key=lambda place: size_of(needs[place]), default=("", 0))
    return next(role for role in gang.roles if role.name == heaviest or not needs)


def _packed_around(gang: Gang, heaviest: Role, count: int) -> dict[Place, int]:
    """A slot for each place of that role; the others are put into `count` of them in turn."""
    others = iter(range(gang.places))
    return {(name, index): index if name == heaviest.name else next(others) % count for name, index in places_of(gang)}


def _shared(gang: Gang, layout: Layout, rooms: Mapping[str, Room]) -> dict[Place, int]:
    """As `packing`, where the places of one role have a slot each and the others share these, as many as they hold."""
    tasks = sum(count for _, count in layout)
    here = [(rooms.get(node, Room()), count) for node, count in layout]
    if any(not room.cpus for room, _ in here):
        plan = plan_slots(gang)
        return plan.of if plan.count == tasks else {}
    # One that had to be on one node was asked for as a whole, whatever is in which slot.
    parts = 1 if gang.one_domain == HOSTNAME and len(here) == 1 else tasks
    each = Room(
        cpus=min(room.cpus // (count * parts // tasks) for room, count in here),
        memory_mib=min(room.memory_mib // (count * parts // tasks) for room, count in here),
    )
    # Each as the smallest of its role: whether a larger one fits is seen when it comes (`sunkpy.core.gang.room`).
    least = {role.name: _least(role) for role in gang.roles if role.places}
    asks = {
        name: Room(cpus=whole_cpus(needs), memory_mib=quantity.mib_up(needs["memory"])) for name, needs in least.items()
    }
    # The heaviest has the slots. While it is not known of each role how heavy it is, that may be any; where several do,
    # the one around which the gang would be asked for now.
    by_weight = sorted((r for r in gang.roles if r.places), key=lambda role: size_of(least[role.name]), reverse=True)
    is_known = all(role.members or role.elsewhere or role.shape for role in by_weight)
    first = _heaviest(gang)
    around = [first, *(role for role in (by_weight[:1] if is_known else by_weight) if role.name != first.name)]
    has = _Parts(slots=tasks, count=parts, each=each)
    several = (_fitted(_packed_around(gang, role, tasks), role.name, asks, has) for role in around)
    return max(several, key=lambda of: sum(slot < tasks for slot in of.values()))


def _fitted(of: dict[Place, int], heaviest: str, asks: Mapping[str, Room], has: _Parts) -> dict[Place, int]:
    """Those of the other roles that find no room left are numbered beyond all slots."""
    cpus, memory_mib = [has.each.cpus] * has.count, [has.each.memory_mib] * has.count
    beyond = len(of) + has.slots
    for place in sorted(of, key=lambda place: place[0] != heaviest):
        at, wants = of[place] % has.count, asks[place[0]]
        has_room = wants.cpus <= cpus[at] and (not has.each.memory_mib or wants.memory_mib <= memory_mib[at])
        if place[0] != heaviest and not has_room:
            of[place] = beyond = beyond + 1
        elif of[place] < has.slots:
            cpus[at] -= wants.cpus
            memory_mib[at] -= wants.memory_mib
    return of


def _least(role: Role) -> matching.Amounts:
    """The least that pods of the role ask for, resource by resource; before any is there, what its template says."""
    apart = [rounded(matching.pod_requests(member.pod.spec)) for member in role.elsewhere[:1]]
    known = [*_rounded_needs(role).values()] or _shape(role.shape) or apart or [rounded({})]
    return {name: min(each.get(name, 0) for each in known) for name in known[0]}


def _shape(spec: PodSpec | None) -> list[matching.Amounts]:
    return [rounded(matching.pod_requests(spec))] if spec is not None else []


def _latest_last(role: Role) -> list[Member]:
    """Of several pods of one place the youngest counts, and any that lives before one that has ended."""
    return sorted(role.members, key=lambda m: (not m.pod.is_finished, m.pod.metadata.creation_timestamp))
