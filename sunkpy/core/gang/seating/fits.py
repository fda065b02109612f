"""Checks whether pods that are bound later than the first ones of their gang fit into what the job has on their node.

A job was made for the pods that existed, and for the templates of later pods. A pod that replaces another, or whose
template lacked something, may ask for more. Slurm may give the rest of the node to other jobs, so such a pod is not
bound there, however much room the kubelet has.

All pods of the gang on a node share what the job has there: first the bound pods, then those that ask for least. Only
what Slurm counts is compared, rounded up as for the job. An amount that Slurm did not report keeps no pod out. Bound
pods are not checked again, so a pod that was resized in place stays.
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
    """Return each waiting pod that does not fit into what the job has on its node, by pod uid, with the reason: `lacks
    cpu: needs 2, has 1`.

    Args:
        seating: the node on which the job has a seat (room for one pod) for each pod.
        capacities: what the job has on each Slurm node.
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
