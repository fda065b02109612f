"""Whether members that come late fit into what their job has of the node where their place is.

A job was made for the pods that were there, and for the templates of those yet to come. A pod that comes in the stead
of another, or whose template was not all, may ask for more. Slurm has given the rest of that node to others, so however
much room the kubelet has, such a pod is not bound there: what is asked of Slurm is never less than what pods ask for.

All members on a node share what the job has there: who asks for less leaves room for others. Counted is what Slurm
counts, rounded up as the job was; what Slurm did not say is held against nobody. Members that run are not asked again:
one that was resized in place stays.
"""

from __future__ import annotations

from collections.abc import Mapping

from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.slots import rounded
from sunkpy.core.model import matching
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.quantity import BadQuantity
from sunkpy.core.model.room import Room

_MIB = 2**20


def find_outgrown(
    gang: Gang, nodes: Mapping[str, str], rooms: Mapping[str, Room], *, gpu_resources: Mapping[str, str]
) -> dict[str, str]:
    """Why, by uid, members that wait do not fit where they have a seat: `lacks cpu: needs 2, has 1`.

    They are counted in rank order, after those that have nodes.

    Args:
        nodes: the Slurm node of each member that is there or has a seat, by uid.
        rooms: what the job has, by Slurm node.
        gpu_resources: extended resource → GRES name.
    """
    free = {node: _amounts(room) for node, room in rooms.items()}
    outgrown: dict[str, str] = {}
    counted = [pod for pod in gang.members if nodes.get(pod.uid) in free]
    for pod in sorted(counted, key=lambda pod: not pod.spec.node_name):
        node = nodes[pod.uid]
        try:
            needs = _needs(pod, rooms[node], gpu_resources)
        except BadQuantity as error:
            outgrown[pod.uid] = str(error)
            continue
        lacking = matching.shortfalls(needs, free[node])
        if lacking and not pod.spec.node_name:
            outgrown[pod.uid] = str(lacking[0])
        else:
            left = matching.subtracted(free[node], needs)
            free[node] = {name: max(0, amount) for name, amount in left.items()}
    return outgrown


def _amounts(room: Room) -> matching.Amounts:
    return {"cpu": room.cpus * 1000, "memory": room.memory_mib * _MIB, **(room.gres or {})}


def _needs(pod: Pod, room: Room, gpu_resources: Mapping[str, str]) -> matching.Amounts:
    """What Slurm counts of what a pod asks for, as far as it has said how much of it there is."""
    asked = rounded(matching.pod_requests(pod.spec))
    needs: matching.Amounts = {}
    if room.cpus:
        needs["cpu"] = asked["cpu"]
    if room.memory_mib:
        needs["memory"] = asked["memory"]
    if room.gres is not None:
        for resource, gres in gpu_resources.items():
            needs = matching.added(needs, {gres: asked.get(resource, 0)})
    return needs
