"""What becomes of a late member that the node of its seat refuses."""

import pytest

from sunkpy.core.gang.actions import Bind, IfRefused, Report, WaitCause
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.decide.bound import SEAT_PATIENCE_S
from sunkpy.core.gang.snapshot import Refusal
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.test_decide import POLICY
from tests.unit.core.gang.test_families import RUNS, band, band_view

GIVE_BACK, WAIT, GO_SOLO = IfRefused
NOW = 1000.0
FULL = "node k2 lacks cpu: needs 2, has 0"


def refused(for_s, *, again_in_s=0.0):
    return {"late": Refusal(why=FULL, since=NOW - for_s, times=1, again_at=NOW + again_in_s)}


def seen(*, leader=None, declared=(), **fields):
    leader = leader or make_pod(node="k1", running=True)
    gang, _ = band(("leader", 0, leader), ("worker", 1, make_pod("late", uid="late")), **dict(declared))
    return band_view(gang, RUNS, bound_to=7, placed={"uid-1": "n1"}, now=NOW, **fields)


@pytest.mark.parametrize(
    ("fields", "then"),
    [
        ({}, WAIT),
        ({"refusals": refused(1.0)}, WAIT),
        ({"refusals": refused(SEAT_PATIENCE_S)}, GO_SOLO),
        ({"refusals": refused(SEAT_PATIENCE_S), "declared": {"one_domain": "rack"}}, GIVE_BACK),
        ({"refusals": refused(SEAT_PATIENCE_S), "named_nodes": {"late": "n2"}}, WAIT),
        ({"is_half_bound": True}, GIVE_BACK),
    ],
)
def test_a_late_member_that_its_node_refuses_is_tried_for_a_while_and_then_goes_elsewhere(fields, then):
    (bind,) = decide_gang(seen(**fields), POLICY)
    assert (type(bind), bind.if_refused) == (Bind, then)


def test_a_job_on_whose_nodes_nobody_is_and_that_refuse_who_comes_is_given_back():
    over = make_pod(node="k1", phase="Succeeded")
    (first,) = decide_gang(seen(leader=over, declared={"expects_more": True}), POLICY)
    (later,) = decide_gang(seen(leader=over, declared={"expects_more": True}, refusals=refused(1.0)), POLICY)
    assert (first.if_refused, later.if_refused) == (WAIT, GIVE_BACK)


def test_a_node_that_has_just_refused_a_member_is_not_asked_at_once():
    actions = decide_gang(seen(refusals=refused(SEAT_PATIENCE_S, again_in_s=1.0)), POLICY)
    (told,) = actions
    assert told == Report(pod=told.pod, message=FULL, cause=WaitCause.KUBELET)
