import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.model.objects import Condition
from sunkpy.core.nodeset.pod_state import removal_order
from sunkpy.core.nodeset.rollout import choose_for_rollout, max_unavailable
from sunkpy.core.nodeset.slurmd_pod import node_of
from sunkpy.core.nodeset.spec import RollingUpdate, UpdateStrategy
from sunkpy.core.nodeset.survey import make_survey
from sunkpy.core.nodeset.verdict import Trait
from sunkpy.core.nodeset.wanted import Wanted
from tests.unit.core.nodeset.build import EARLIER, NOW, make_node, make_nodeset, make_pod, make_views

NODESET = make_nodeset()
TOKEN = "2026-11-20T11:30:00+00:00/rollout"
FRESH = "2026-11-20T11:59:30+00:00/rollout"


def old(number, **kwargs):
    return make_pod(NODESET, number, template_hash="old", **kwargs)


def new(number, **kwargs):
    return make_pod(NODESET, number, template_hash="new", **kwargs)


def choose(pods, *, limit, total=None, nodes=None, proven=True):
    """The names of the pods that the roll takes, with a good node below each pod but where `nodes` has another one.

    `proven`: the template has an available pod somewhere.
    """
    there = [(nodes or {}).get(node_of(pod), make_node(int(node_of(pod)[1:]))) for pod in pods]
    wanted = msgspec.structs.replace(Wanted.read(NODESET), hash="new")
    survey = make_survey(wanted, make_views(there, pods, {}))
    survey.counts[Trait.PROVEN] += proven
    chosen = choose_for_rollout(survey, (), total=len(pods) if total is None else total, limit=limit, now=NOW)
    return {survey.pods[uid].pod.name for uid in chosen}


@pytest.mark.parametrize(
    ("limit", "total", "pods"), [(2, 10, 2), ("25%", 10, 3), ("1%", 10, 1), ("100%", 7, 7), (0, 5, 1), ("25%", 0, 1)]
)
def test_max_unavailable(limit, total, pods):
    strategy = UpdateStrategy(rolling_update=RollingUpdate(max_unavailable=limit))
    assert max_unavailable(strategy, total) == pods


def test_not_ready_then_idle_then_draining_then_running_newest_first():
    pods = [
        old(1, running="True"),
        old(2, running="True", drain="True"),
        old(3),
        old(4, created="2026-11-20T11:00:01Z"),
        old(5, ready=False),
        old(6, running=None),
    ]
    assert [pod.name[-1] for pod in sorted(pods, key=removal_order)] == ["5", "4", "3", "2", "1", "6"]


def test_the_roll_takes_as_many_as_may_be_missing():
    assert choose([old(1), old(2), old(3)], limit=2) == {"gpu-012-001", "gpu-012-002"}


@pytest.mark.parametrize(("limit", "taken"), [(1, 1), (2, 1), (5, 1), (6, 2), (10, 2)])
def test_a_template_that_has_not_shown_an_available_pod_takes_a_fifth_of_the_limit(limit, taken):
    pods = [old(n) for n in range(10)]
    assert len(choose(pods, limit=limit, proven=False)) == taken
    failed = [new(n, ready=False) for n in range(taken)]
    assert choose([*failed, *pods[taken:]], limit=limit, proven=False) == set(), "a bad one takes no more"
    assert len(choose([*failed, *pods[taken:]], limit=limit)) == limit - taken


def test_a_template_that_changes_again_leaves_the_marks():
    marked = [old(n, running="True", token=FRESH) for n in range(5)]
    assert len(choose([*marked, old(7)], limit=5, proven=False)) == 5


def test_a_missing_pod_uses_up_the_limit():
    assert choose([old(1), old(2)], limit=1, total=3) == set()


def test_new_pods_that_do_not_become_ready_stop_the_roll():
    assert choose([new(1, ready=False), old(2), old(3)], limit=1) == set()


def test_a_pod_already_marked_stays_chosen():
    pods = [old(1), old(2, running="True", token=FRESH), old(3)]
    assert choose(pods, limit=1) == {"gpu-012-002"}


def test_a_mark_on_a_busy_pod_is_taken_off_when_an_idle_pod_waits():
    busy = [old(n, running="True", token=TOKEN) for n in (1, 2)]
    assert choose([*busy, old(3)], limit=2) == {"gpu-012-001"}, "one mark for one idle pod"
    assert choose([*busy, old(3), old(4), old(5)], limit=2) == set()
    assert choose([busy[0], old(3)], limit=2) == {"gpu-012-001", "gpu-012-003"}, "there is room for both"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(old(3, running="True"), id="it is as busy"),
        pytest.param(old(3, running="Unknown"), id="nobody knows"),
        pytest.param(new(3), id="it is rolled already"),
        pytest.param(old(3, deleting=True), id="it is going"),
    ],
)
def test_a_mark_stays_where_no_idle_pod_waits(other):
    assert "gpu-012-001" in choose([old(1, running="True", token=TOKEN), other], limit=1)


@pytest.mark.parametrize("state", [{"running": "Unknown"}, {"running": "True", "ready": False}, {"running": "False"}])
def test_a_mark_stays_on_a_pod_that_is_not_known_to_be_busy_or_would_stay_away(state):
    assert choose([old(1, token=TOKEN, **state), old(2)], limit=1) == {"gpu-012-001"}


def test_not_ready_pods_are_taken_first_and_cost_no_availability():
    assert choose([old(1), old(2, ready=False), old(3)], limit=1) == {"gpu-012-002"}


def test_an_outage_does_not_let_the_roll_take_everything():
    pods = [old(n, ready=False) for n in range(10)]
    assert len(choose(pods, limit=2)) == 2


def test_a_broken_template_can_be_rolled_over_by_a_mended_one():
    pods = [make_pod(NODESET, n, template_hash="broken", ready=False) for n in range(2)] + [old(7), old(8)]
    assert choose(pods, limit=2) == {"gpu-012-000", "gpu-012-001"}


def test_a_pod_on_its_way_out_counts():
    assert choose([old(1, deleting=True), old(2)], limit=1) == set()


def test_nothing_outdated_nothing_chosen():
    assert choose([new(1), new(2, created=EARLIER)], limit=5) == set()


DEAD = {"n1": make_node(1, ready=False)}
HELD = Condition(type=names.CONDITION_CORDON, status="True", reason="DrainedInSlurm", message="bad gpu")
INVALID = Condition(type=names.CONDITION_CORDON, status="True", reason=names.REASON_INVALID)


@pytest.mark.parametrize(
    ("stuck", "nodes"),
    [
        pytest.param(old(1, ready=False), DEAD, id="its machine is dead"),
        pytest.param(old(1, ready=False, token=TOKEN), DEAD, id="marked, and then its machine died"),
        pytest.param(old(1, ready=False, deleting=True), DEAD, id="nobody is there to end it"),
        pytest.param(new(1, ready=False), DEAD, id="the new pod waits for a dead kubelet"),
        pytest.param(new(1, ready=False, cordon=HELD), {}, id="an admin holds the node DOWN"),
    ],
)
def test_what_cannot_move_does_not_block_the_roll(stuck, nodes):
    assert choose([stuck, old(2), old(3)], limit=1, nodes=nodes) - {stuck.name} == {"gpu-012-002"}


def test_a_mark_that_the_roll_has_set_stays_when_the_machine_dies():
    assert "gpu-012-001" in choose([old(1, ready=False, token=TOKEN), old(2)], limit=1, nodes=DEAD)


def test_a_template_that_slurm_refuses_stops_the_roll():
    assert choose([new(1, ready=False, cordon=INVALID), old(2)], limit=1) == set()


def test_many_dead_machines_are_no_accident_and_stop_the_roll():
    nodes = {f"n{n}": make_node(n, ready=False) for n in range(4)}
    pods = [new(n, ready=False) for n in range(4)] + [old(n) for n in range(4, 10)]
    assert choose(pods[2:], limit=1, nodes=nodes, total=8), "two of eight: a fifth, rounded up"
    assert choose(pods, limit=1, nodes=nodes) == set()
