"""Which nodes get a slurmd pod now, and under which name."""

from __future__ import annotations

from itertools import islice

from sunkpy.core.nodeset.actions import CreatePod
from sunkpy.core.nodeset.naming import assign_names
from sunkpy.core.nodeset.slurmd_pod import build_pod
from sunkpy.core.nodeset.verdict import Trait
from sunkpy.core.nodeset.world import World


def count_missing(world: World, desired: int) -> int:
    """Return how many pods to create, now or later: one for each free node (it fits and has no pod). With `replicas`,
    only as many as are lacking.
    """
    free = len(world.survey.free)
    if world.nodeset.spec.replicas is None:
        return free
    return min(free, max(desired - world.survey.counts[Trait.STAYING], 0))


def plan_creations(world: World, missing: int) -> list[CreatePod]:
    """Plan one pod for each of the best free nodes, in the order of the survey: at most `missing`, and at most
    `world.room_to_create`.
    """
    survey = world.survey
    chosen = list(islice(survey.free, min(missing, world.room_to_create)))
    assigned = assign_names(world.nodeset, chosen, taken=survey.taken_names, reserved=survey.reserved_names)
    return [
        CreatePod(node.name, assigned[node.name], build_pod(world.nodeset, node, assigned[node.name]))
        for node in chosen
    ]
