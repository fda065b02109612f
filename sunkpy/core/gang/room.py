"""Whether members that come late fit into what their job has of the node where their place is.

A job was made for the pods that were there, and for the templates of those yet to come. A pod that comes in the stead
of another, or whose template was not all, may ask for more. Slurm has given the rest of that node to others, so however
much room the kubelet has, such a pod is not bound there: what is asked of Slurm is never less than what pods ask for.

All members on a node share what the job has there. Who asks for less leaves room for others; but of what a place was
made for nobody else takes, so for each one whose pod has no node yet the least is kept that any pod of its role asks.
Counted is what Slurm counts, rounded up as the job was; what Slurm did not say is held against nobody. Members that run
are not asked again: one that was resized in place stays.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sunkpy.core.gang.gang import Gang, Role
from sunkpy.core.gang.places import Seat
from sunkpy.core.gang.slots import Place, rounded
from sunkpy.core.model import matching
from sunkpy.core.model.objects import PodSpec
from sunkpy.core.model.quantity import BadQuantity
from sunkpy.core.model.room import Room

_MIB = 2**20


class Sitting(msgspec.Struct, frozen=True, kw_only=True):
    """Who sits where: the nodes of members that have one and their seats by uid, and the nodes of all places."""

    holding: Mapping[str, str]
    seats: Mapping[str, Seat]
    places: Mapping[Place, str]


def find_outgrown(
    gang: Gang, sits: Sitting, rooms: Mapping[str, Room], *, gpu_resources: Mapping[str, str]
) -> dict[str, str]:
    """Why, by uid, members that wait do not fit where they have a seat: `lacks cpu: needs 2, has 1`.

    They are looked at in rank order.

    Args:
        rooms: what the job has, by Slurm node.
        gpu_resources: extended resource → GRES name.
    """
    asked: dict[str, matching.Amounts] = {}
    outgrown: dict[str, str] = {}
    for pod in gang.members:
        try:
            asked[pod.uid] = _counted(pod.spec, gpu_resources)
        except BadQuantity as error:
            outgrown[pod.uid] = str(error)
    kept = {role.name: _least(role, asked, gpu_resources) for role in gang.roles}
    free = _free(sits, rooms, asked, kept)
    waiting = [pod.uid for pod in gang.members if pod.uid in sits.seats and pod.uid not in sits.holding]
    for uid in waiting:
        role, node = sits.seats[uid].place[0], sits.seats[uid].node
        if node in free and uid in asked:
            here = matching.added(free[node], kept[role])
            if lacking := _lacking(asked[uid], here, rooms[node]):
                outgrown[uid] = lacking
            else:
                free[node] = matching.subtracted(here, asked[uid])
    return {uid: outgrown[uid] for uid in waiting if uid in outgrown}


def _counted(spec: PodSpec, gpu_resources: Mapping[str, str]) -> matching.Amounts:
    """What Slurm counts of what a pod asks for; devices by the name of their GRES."""
    asked = rounded(matching.pod_requests(spec))
    counted = {"cpu": asked["cpu"], "memory": asked["memory"]}
    for resource, gres in gpu_resources.items():
        counted = matching.added(counted, {gres: asked.get(resource, 0)})
    return counted


def _least(role: Role, asked: Mapping[str, matching.Amounts], gpu_resources: Mapping[str, str]) -> matching.Amounts:
    """What is kept for a place of the role without a pod, resource by resource."""
    known = [asked[member.pod.uid] for member in role.members if member.pod.uid in asked]
    if role.shape is not None or not known:
        known.append(_counted(role.shape or PodSpec(), gpu_resources))
    return {name: min(each[name] for each in known) for name in known[0]}


def _free(
    sits: Sitting,
    rooms: Mapping[str, Room],
    asked: Mapping[str, matching.Amounts],
    kept: Mapping[str, matching.Amounts],
) -> dict[str, matching.Amounts]:
    """What the job has on each node beside its members there, and beside what is kept for the other places."""
    free = {
        node: {"cpu": room.cpus * 1000, "memory": room.memory_mib * _MIB, **(room.gres or {})}
        for node, room in rooms.items()
    }
    held = {seat.place for uid, seat in sits.seats.items() if uid in sits.holding}
    taken = [(node, asked.get(uid, {})) for uid, node in sits.holding.items()]
    taken += [(node, kept[place[0]]) for place, node in sits.places.items() if place not in held]
    for node, amounts in taken:
        if node in free:
            free[node] = matching.subtracted(free[node], amounts)
    return free


def _lacking(needs: matching.Amounts, here: Mapping[str, int], room: Room) -> str:
    """Of what Slurm has said how much there is."""
    is_known = {"cpu": bool(room.cpus), "memory": bool(room.memory_mib)}
    known = {name: amount for name, amount in needs.items() if is_known.get(name, room.gres is not None)}
    left = {name: max(0, amount) for name, amount in here.items()}
    return next((str(each) for each in matching.shortfalls(known, left)), "")
