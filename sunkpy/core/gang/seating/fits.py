"""Whether members that come late fit into what their job has of the node where their seat is.

A job was made for the pods that were there, and for the templates of those yet to come. A pod that comes instead
of another, or whose template was not all, may ask for more. Slurm has given the rest of that node to others, so however
much room the kubelet has, such a pod is not bound there: what is asked of Slurm is never less than what pods ask for.

All members on a node share what the job has there, those that ask for least first. Counted is what Slurm counts,
rounded up as for the job; what Slurm did not say is held against nobody. Members that run are not asked again: one that
was resized in place stays.
"""

from __future__ import annotations

from collections.abc import Mapping

from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.seating.seating import Seating
from sunkpy.core.model import matching
from sunkpy.core.model.capacity import Capacity
from sunkpy.core.placement.needs import counted


def find_outgrown(
    gang: Gang, seating: Seating, capacities: Mapping[str, Capacity], *, gpu_resources: Mapping[str, str]
) -> dict[str, str]:
    """Why, by uid, members that wait do not fit where they have a seat: `lacks cpu: needs 2, has 1`.

    Args:
        capacities: what the job has, by Slurm node.
        gpu_resources: extended resource → GRES name.
    """
    asked = {pod.uid: counted(matching.pod_requests(pod.spec), gpu_resources) for pod in gang.members}
    free = {node: capacity.amounts for node, capacity in capacities.items()}
    waiting = {uid: seat.node for uid, seat in seating.seats.items() if uid in asked and uid not in seating.holding}
    least_first = sorted(waiting.items(), key=lambda each: sorted(asked[each[0]].items()))
    outgrown: dict[str, str] = {}
    for uid, node in (*seating.holding.items(), *least_first):
        if node not in free:
            continue
        if uid in waiting and (lacking := capacities[node].lacking(asked[uid], free[node])):
            outgrown[uid] = lacking
        else:
            free[node] = matching.subtracted(free[node], asked.get(uid, {}))
    return outgrown
