"""Idle nodes are left to autoscalers, and taken back when jobs want nodes."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.model.growth import GrowthStatus
from sunkpy.core.model.times import rfc3339
from sunkpy.core.nodeset.actions import CancelPending, CreatePod, DeletePod, MarkPending
from sunkpy.core.nodeset.decide import decide_nodeset
from sunkpy.core.nodeset.node_side import decide_node
from sunkpy.core.nodeset.release import released_nodes
from sunkpy.core.nodeset.spec import Ask, Growth, NodeSetStatus
from sunkpy.core.nodeset.status import make_status
from sunkpy.core.nodeset.verdict import Trait
from tests.unit.core.nodeset.build import NOW, make_node, make_nodeset, make_pod, make_world

TOKEN = "2026-11-20T11:30:00+00:00/idle: no job for 600 s"
RELEASED = {names.ANNOTATION_RELEASED: "slurm/gpu"}


def seen_before(**ago):
    return rfc3339(NOW - timedelta(**ago))


LATELY = seen_before(minutes=4)


def releasing(*, after_s=600, wanted=0, held=False, seen=LATELY, ask=Ask.AUTO, **more):
    status = NodeSetStatus(growth=None if seen is None else GrowthStatus(wanted_nodes=wanted, held=held, seen=seen))
    made = make_nodeset(status=status, **more)
    grown = msgspec.structs.replace(made.spec, growth=Growth(potential=9, ask=ask, release_after_seconds=after_s))
    return msgspec.structs.replace(made, spec=grown)


def decided(nodeset, nodes, pods, *, idle=True):
    """The plan; `idle`: those pods that nothing runs on have been so for long."""
    world = make_world(nodeset, nodes, pods)
    idle_pods = frozenset(world.survey.those(Trait.IDLE)) if idle else frozenset()
    return decide_nodeset(msgspec.structs.replace(world, idle=idle_pods))


def what(plan):
    return [type(action) for action in plan.actions]


@pytest.mark.parametrize(
    ("nodeset", "pod", "goes"),
    [
        pytest.param(releasing(), {}, True, id="nothing runs"),
        pytest.param(releasing(), {"running": "True"}, False, id="a job runs"),
        pytest.param(releasing(), {"running": "Unknown"}, False, id="nobody can tell"),
        pytest.param(releasing(), {"running": None}, False, id="it has not said"),
        pytest.param(releasing(), {"drain": "True"}, False, id="somebody has closed it, and may want to look at it"),
        pytest.param(releasing(), {"ready": False}, False, id="it starts"),
        pytest.param(releasing(wanted=1), {}, False, id="jobs want nodes"),
        pytest.param(releasing(held=True), {}, False, id="a job waits for it and for nodes that are busy"),
        pytest.param(releasing(seen=None), {}, False, id="the syncer has said nothing"),
        pytest.param(releasing(seen=""), {}, False, id="nor when it knew what jobs want"),
        pytest.param(releasing(seen=seen_before(minutes=5)), {}, False, id="what jobs want is not known any more"),
        pytest.param(releasing(seen=seen_before(minutes=-5)), {}, False, id="a clock that is ahead tells nothing"),
        pytest.param(releasing(after_s=None), {}, False, id="nodes are not released"),
        pytest.param(releasing(replicas=1), {}, False, id="replicas say how many there are"),
    ],
)
def test_an_idle_node_is_drained_before_its_pod_goes(nodeset, pod, goes):
    plan = decided(nodeset, [make_node(1)], [make_pod(nodeset, 1, **pod)])
    assert what(plan) == ([MarkPending] if goes else [])
    if goes:
        assert plan.actions[0].token.cause == "idle: no job for 600 s"


def test_it_is_not_drained_before_its_time():
    nodeset = releasing()
    assert what(decided(nodeset, [make_node(1)], [make_pod(nodeset, 1)], idle=False)) == []


@pytest.mark.parametrize(
    ("nodeset", "pod", "step"),
    [
        pytest.param(releasing(), {}, [], id="Slurm has not answered"),
        pytest.param(releasing(), {"drained": TOKEN}, [DeletePod], id="drained and idle"),
        pytest.param(releasing(), {"running": "True"}, [CancelPending], id="a job was faster: it stays"),
        pytest.param(releasing(wanted=2), {"drained": TOKEN}, [CancelPending], id="jobs want nodes now"),
        pytest.param(releasing(after_s=None), {"drained": TOKEN}, [CancelPending], id="nodes are no longer released"),
        pytest.param(releasing(seen=None), {"drained": TOKEN}, [CancelPending], id="nobody knows what jobs want"),
    ],
)
def test_it_goes_by_a_receipt_and_stays_if_it_is_wanted(nodeset, pod, step):
    made = make_pod(nodeset, 1, drain="True", token=TOKEN, **pod)
    assert what(decided(nodeset, [make_node(1)], [made], idle=False)) == step


def test_its_node_remembers_while_the_pod_goes_and_after():
    nodeset = releasing()
    going = make_pod(nodeset, 1, drain="True", token=TOKEN)
    node = make_node(1)
    assert decide_node(node, going).annotations[names.ANNOTATION_RELEASED] == "slurm/gpu"
    released = make_node(1, annotations=RELEASED)
    assert names.ANNOTATION_RELEASED not in decide_node(released, None).annotations
    assert decide_node(released, make_pod(nodeset, 1)).annotations[names.ANNOTATION_RELEASED] is None
    assert decide_node(released, going).annotations.get(names.ANNOTATION_RELEASED, "slurm/gpu") == "slurm/gpu"


@pytest.mark.parametrize(
    ("nodeset", "comes"),
    [
        pytest.param(releasing(), False, id="it waits for an autoscaler"),
        pytest.param(releasing(after_s=None), True, id="nodes are no longer released"),
        pytest.param(releasing(replicas=1), True, id="replicas want it"),
        pytest.param(releasing(name="other"), True, id="another NodeSet has left it"),
    ],
)
def test_no_pod_comes_to_a_node_that_is_left_to_autoscalers(nodeset, comes):
    plan = decided(nodeset, [make_node(1, annotations=RELEASED)], [])
    assert what(plan) == ([CreatePod] if comes else [])


def test_a_nodeset_whose_nodes_have_all_gone_is_as_wanted():
    nodeset = releasing()
    world = make_world(nodeset, [make_node(1, annotations=RELEASED)])
    told = {each.type: each for each in make_status(world, decide_nodeset(world)).conditions}
    assert (told["Feasible"].status, told["Feasible"].reason) == ("True", "NothingWanted")
    assert told["Feasible"].message == (
        "1 node: 1 was idle and may be removed by autoscalers; autoscalers are asked when jobs want some"
    )
    assert told["Ready"].status == "True"


def test_those_can_be_taken_back_that_are_whole_and_its_own():
    nodeset = releasing()
    good = make_node(1, annotations=RELEASED)
    bad = [
        make_node(2),
        make_node(3, annotations={names.ANNOTATION_RELEASED: "slurm/other"}),
        make_node(4, annotations=RELEASED, ready=False),
        make_node(5, annotations=RELEASED, unschedulable=True),
        make_node(6, annotations=RELEASED, deleting=True),
    ]
    assert released_nodes(nodeset, [good, *bad]) == [good]
