"""What kstatus makes of a NodeSet: Flux and helm wait while it is in progress, and give up when it has failed."""

from __future__ import annotations

import pytest

from sunkpy.core.nodeset.decide import decide_nodeset
from sunkpy.core.nodeset.status import make_status
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod, make_template, make_world

TOKEN = "2026-11-20T11:30:00+00:00/rollout"
NOWHERE = make_template(nodeSelector={"pool": "gpu"})


def kstatus(status, generation):
    """The generic rules of kstatus, for kinds that it does not know."""
    if status.observed_generation != generation:
        return "InProgress"
    is_true = {each.type for each in status.conditions if each.status == "True"}
    if "Reconciling" in is_true:
        return "InProgress"
    if "Stalled" in is_true:
        return "Failed"
    return "Current" if "Ready" in is_true else "InProgress"


def two_pods(nodeset, **first):
    return [make_pod(nodeset, 1, **first), make_pod(nodeset, 2)]


@pytest.mark.parametrize(
    ("nodeset", "first", "health", "reason"),
    [
        (make_nodeset(), {}, "Current", "MinimumAvailable"),
        (make_nodeset(), {"ready": False}, "InProgress", "WaitingForReady"),
        (make_nodeset(replicas=3), {}, "InProgress", "TooFewNodes"),
        (make_nodeset(), {"phase": "Failed", "reason": "OutOfcpu"}, "InProgress", "PodsFailed"),
        (make_nodeset(deleting=True), {}, "InProgress", "TearingDown"),
        (make_nodeset(strategy="OnDelete"), {"template_hash": "old"}, "Current", "MinimumAvailable"),
        # A roll that waits for a job of a week: who waits for it would undo it.
        (make_nodeset(), {"template_hash": "old", "token": TOKEN, "running": "True"}, "Current", "MinimumAvailable"),
    ],
)
def test_it_is_current_when_it_is_as_wanted_or_waits_for_jobs_alone(nodeset, first, health, reason):
    world = make_world(nodeset, [make_node(1), make_node(2)], two_pods(nodeset, **first))
    status = make_status(world, decide_nodeset(world))
    assert kstatus(status, nodeset.metadata.generation) == health
    assert status.condition("Ready").reason == reason


@pytest.mark.parametrize(
    ("world", "health", "reason"),
    [
        (make_world(make_nodeset(replicas=0), []), "Current", "NothingWanted"),
        (make_world(make_nodeset(template=NOWHERE), [make_node(1)]), "InProgress", "NoNodeFits"),
        (make_world(make_nodeset(), [make_node(1)], create_error="image: Required"), "Failed", "CreateFailed"),
        (
            make_world(
                make_nodeset(template=NOWHERE),
                [make_node(n) for n in range(7)],
                [make_pod(make_nodeset(template=NOWHERE), n) for n in range(7)],
            ),
            "Failed",
            "TooManyAtOnce",
        ),
    ],
)
def test_what_only_a_person_can_mend_has_failed(world, health, reason):
    status = make_status(world, decide_nodeset(world))
    assert kstatus(status, world.nodeset.metadata.generation) == health
    assert status.condition("Ready").reason == reason


def test_a_change_that_nobody_has_seen_is_in_progress():
    world = make_world(make_nodeset(), [make_node(1)], [make_pod(make_nodeset(), 1)])
    status = make_status(world, decide_nodeset(world))
    assert kstatus(status, world.nodeset.metadata.generation + 1) == "InProgress"
