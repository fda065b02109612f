from datetime import timedelta

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.health import Record, State
from sunkpy.core.health.verification import run_of
from sunkpy.core.model.objects import NodeDevice, Taint
from sunkpy.core.nodeset.actions import (
    AddFinalizer,
    CancelPending,
    CreatePod,
    DeletePod,
    MarkPending,
    RemoveFinalizer,
)
from sunkpy.core.nodeset.decide import decide_nodeset
from sunkpy.core.nodeset.pod_state import is_marked_by_roll
from sunkpy.core.nodeset.slurmd_pod import offer
from sunkpy.core.nodeset.spec import Gpu
from sunkpy.core.nodeset.windows import Window
from sunkpy.core.nodeset.world import WAVE
from tests.unit.core.nodeset.build import NOW, make_node, make_nodeset, make_pod, make_template, make_world

TOKEN = "2026-11-20T11:30:00+00:00/scale-down"


def steps(plan, kind):
    return [action for action in plan.actions if isinstance(action, kind)]


def marked(plan):
    return {(action.pod.name, action.token.cause) for action in steps(plan, MarkPending)}


def deleted(plan):
    return {(action.pod.name, action.why) for action in steps(plan, DeletePod)}


def created(plan):
    return {(action.node, action.name) for action in steps(plan, CreatePod)}


def nodes(count):
    return [make_node(n) for n in range(1, count + 1)]


def pods(nodeset, count, **kwargs):
    return [make_pod(nodeset, n, **kwargs) for n in range(1, count + 1)]


def test_each_feasible_node_gets_a_pod_and_the_nodeset_a_finalizer():
    plan = decide_nodeset(make_world(make_nodeset(finalizers=()), nodes(2)))
    assert created(plan) == {("n1", "gpu-012-001"), ("n2", "gpu-012-002")}
    assert steps(plan, AddFinalizer)


def test_replicas_limit_and_prefer_usable_nodes():
    choice = [make_node(1, unschedulable=True), make_node(2, ready=False), make_node(3), make_node(4)]
    assert {node for node, _ in created(decide_nodeset(make_world(make_nodeset(replicas=2), choice)))} == {"n3", "n4"}
    assert len(created(decide_nodeset(make_world(make_nodeset(replicas=9), choice)))) == 4


def test_nothing_to_do_when_all_is_there():
    nodeset = make_nodeset()
    assert decide_nodeset(make_world(nodeset, nodes(2), pods(nodeset, 2))).actions == []


def test_scale_down_marks_the_idle_before_the_running():
    nodeset = make_nodeset(replicas=1)
    found = [make_pod(nodeset, 1, running="True"), make_pod(nodeset, 2), make_pod(nodeset, 3, running="True")]
    assert marked(decide_nodeset(make_world(nodeset, nodes(3), found))) == {
        ("gpu-012-002", "scale-down"),
        ("gpu-012-001", "scale-down"),
    }


def test_only_an_answered_token_lets_a_pod_go():
    nodeset = make_nodeset(replicas=0)
    answers = [None, "2026-11-20T11:29:00+00:00/scale-down", TOKEN]
    found = [make_pod(nodeset, n, token=TOKEN, drained=answer) for n, answer in enumerate(answers, start=1)]
    assert deleted(decide_nodeset(make_world(nodeset, nodes(3), found))) == {("gpu-012-003", "drained")}


def test_a_running_job_holds_the_pod_even_when_the_token_is_answered():
    nodeset = make_nodeset(replicas=0)
    busy = make_pod(nodeset, 1, token=TOKEN, drained=TOKEN, running="True")
    assert decide_nodeset(make_world(nodeset, nodes(1), [busy])).actions == []


def test_scaling_up_again_cancels_the_removal():
    nodeset = make_nodeset(replicas=2)
    found = [make_pod(nodeset, 1, token=TOKEN), make_pod(nodeset, 2)]
    plan = decide_nodeset(make_world(nodeset, nodes(2), found))
    assert [action.pod.name for action in steps(plan, CancelPending)] == ["gpu-012-001"]


def test_a_gpu_that_fell_off_the_bus_is_in_the_reason_of_the_drain():
    """It goes by the roll's rules: the jobs there run on, and none begins."""
    old = make_nodeset(gpu=Gpu(), template=make_template(image="slurmd:0"))
    two, one = (make_node(1, allocatable={"nvidia.com/gpu": count}) for count in ("2", "1"))
    busy = make_pod(old, 1, running="True", annotations={names.ANNOTATION_OFFERED: offer(old, two)})
    plan = decide_nodeset(make_world(make_nodeset(gpu=Gpu()), [one], [busy]))
    assert marked(plan) == {("gpu-012-001", "rollout: its node offers gres=gpu:1 in place of gpu:2")}
    (mark,) = steps(plan, MarkPending)
    again = make_pod(old, 1, running="True", token=mark.token.encode(), drained=mark.token.encode())
    assert is_marked_by_roll(again)
    assert decide_nodeset(make_world(make_nodeset(gpu=Gpu()), [one], [again])).actions == []


def test_a_sick_gpu_beside_one_that_was_healed_is_in_the_reason_of_the_drain():
    """Slurm has as many as before, and knows none by name."""
    old = make_nodeset(gpu=Gpu(driver="d"), template=make_template(image="slurmd:0"))
    before, now = (
        msgspec.structs.replace(make_node(1), devices={"d": tuple(NodeDevice(word=word) for word in words)})
        for words in ("ab", "ac")
    )
    busy = make_pod(old, 1, running="True", annotations={names.ANNOTATION_OFFERED: offer(old, before)})
    plan = decide_nodeset(make_world(make_nodeset(gpu=Gpu(driver="d")), [now], [busy]))
    assert marked(plan) == {("gpu-012-001", "rollout: its node offers devices=c in place of b")}


def test_a_node_that_no_longer_matches_is_left_and_replaced():
    nodeset = make_nodeset(replicas=1, template=make_template(nodeSelector={"pool": "gpu"}))
    out, fits = make_node(1), make_node(2, labels={"pool": "gpu"})
    plan = decide_nodeset(make_world(nodeset, [out, fits], pods(nodeset, 1)))
    assert marked(plan) == {("gpu-012-001", "node-left: does not match nodeSelector")}
    assert created(plan) == {("n2", "gpu-012-002")}


def test_a_noschedule_taint_does_not_drive_a_pod_away():
    nodeset = make_nodeset()
    tainted = make_node(1, taints=(Taint(key="team", effect="NoSchedule"),))
    assert decide_nodeset(make_world(nodeset, [tainted], pods(nodeset, 1))).actions == []


def test_a_node_filled_by_others_keeps_its_pod():
    nodeset = make_nodeset(template=make_template(requests={"cpu": "8"}))
    found = pods(nodeset, 1)
    world = make_world(nodeset, nodes(1), found, occupants={"n1": [*found, make_pod(make_nodeset(name="x"), 9)]})
    assert decide_nodeset(world).actions == []


def test_too_many_leaving_at_once_are_held_until_confirmed():
    template = make_template(nodeSelector={"pool": "gpu"})
    nodeset = make_nodeset(template=template)
    plan = decide_nodeset(make_world(nodeset, nodes(10), pods(nodeset, 10)))
    assert plan.actions == []
    assert len(plan.held) == 10
    confirmed = make_nodeset(template=template, annotations={names.ANNOTATION_REMOVAL_CAP: "10"})
    assert len(marked(decide_nodeset(make_world(confirmed, nodes(10), pods(confirmed, 10))))) == 10


@pytest.mark.parametrize("cap", ["²", "٣", "-1", "all", "1e9", "9" * 5000])
def test_a_removal_cap_that_is_no_number_confirms_nothing(cap):
    template = make_template(nodeSelector={"pool": "gpu"})
    nodeset = make_nodeset(template=template, annotations={names.ANNOTATION_REMOVAL_CAP: cap})
    plan = decide_nodeset(make_world(nodeset, nodes(10), pods(nodeset, 10)))
    assert plan.actions == []
    assert (len(plan.held), plan.removal_cap) == (10, 5)


def test_a_removal_that_is_said_to_have_begun_at_the_end_of_time_is_not_overdue():
    token = "9999-12-31T23:59:59+00:00/by-hand"
    nodeset = make_nodeset(replicas=0, drain_timeout_s=60)
    world = make_world(nodeset, nodes(1), [make_pod(nodeset, 1, token=token)])
    assert decide_nodeset(world).overdue == []


def test_a_few_leave_without_being_asked():
    nodeset = make_nodeset(template=make_template(nodeSelector={"pool": "gpu"}))
    assert len(marked(decide_nodeset(make_world(nodeset, nodes(3), pods(nodeset, 3))))) == 3


def test_pods_of_vanished_nodes_are_marked():
    nodeset = make_nodeset()
    plan = decide_nodeset(make_world(nodeset, nodes(1), pods(nodeset, 2)))
    assert marked(plan) == {("gpu-012-002", "node-left: the Node is gone")}


def test_a_taint_that_executes_asks_for_the_removal_and_ends_no_job():
    nodeset = make_nodeset()
    tainted = make_node(1, taints=(Taint(key="team", value="a", effect="NoExecute"),))
    busy = make_pod(nodeset, 1, running="True")
    cause = "node-left: has an untolerated taint: team=a:NoExecute"
    assert marked(decide_nodeset(make_world(nodeset, [tainted], [busy]))) == {("gpu-012-001", cause)}
    waiting = make_pod(nodeset, 1, running="True", token=f"2026-11-20T11:00:00+00:00/{cause}")
    assert decide_nodeset(make_world(nodeset, [tainted], [waiting])).actions == []


def test_pods_on_machines_that_are_off_are_not_held():
    nodeset = make_nodeset()
    off = Taint(key="node.kubernetes.io/out-of-service", value="nodeshutdown", effect="NoExecute")
    plan = decide_nodeset(make_world(nodeset, [make_node(n, taints=(off,)) for n in range(1, 9)], pods(nodeset, 8)))
    assert (len(marked(plan)), plan.held) == (8, [])


def test_a_node_belongs_to_one_nodeset():
    nodeset, other = make_nodeset(), make_nodeset(name="cpu")
    theirs = make_pod(other, 1, name="cpu-012-001")
    assert created(decide_nodeset(make_world(nodeset, nodes(2), [theirs]))) == {("n2", "gpu-012-002")}


def test_of_two_nodesets_on_one_node_the_younger_pod_leaves():
    nodeset, other = make_nodeset(), make_nodeset(name="cpu")
    theirs = make_pod(other, 1, name="cpu-012-001", created="2026-11-20T10:00:00Z")
    assert marked(decide_nodeset(make_world(nodeset, nodes(1), [*pods(nodeset, 1), theirs]))) == {
        ("gpu-012-001", "node-left: belongs to another NodeSet: slurm/cpu")
    }
    younger = make_pod(other, 1, name="cpu-012-001", created="2026-11-20T11:30:00Z")
    assert decide_nodeset(make_world(nodeset, nodes(1), [*pods(nodeset, 1), younger])).actions == []


def test_the_roll_marks_within_its_limit():
    nodeset = make_nodeset(max_unavailable=2)
    found = pods(nodeset, 5, template_hash="old")
    assert len(marked(decide_nodeset(make_world(nodeset, nodes(5), found)))) == 1, "the template is not proven"
    proof = make_pod(nodeset, 6)
    assert len(marked(decide_nodeset(make_world(nodeset, nodes(6), [*found, proof])))) == 2


def test_a_scale_down_leaves_a_busy_pod_for_one_that_became_idle():
    nodeset = make_nodeset(replicas=1)

    def steps(since):
        busy = make_pod(nodeset, 1, running="True", token=f"{since}/scale-down", created="2026-11-20T10:00:00Z")
        world = make_world(nodeset, nodes(2), [busy, make_pod(nodeset, 2)])
        plan = decide_nodeset(world)
        return [type(action) for action in plan.actions], plan.requeue_after_s

    assert steps("2026-11-20T11:59:20+00:00") == ([], 20.0), "short jobs end meanwhile"
    assert steps("2026-11-20T11:58:00+00:00") == ([CancelPending], None)


def test_a_scale_down_waits_for_a_busy_pod_whose_node_no_longer_fits():
    nodeset = make_nodeset(replicas=1)
    tainted = make_node(1, taints=(Taint(key="keep-off", effect="NoSchedule"),))
    busy = make_pod(nodeset, 1, running="True", token="2026-11-20T11:00:00+00:00/scale-down")
    assert decide_nodeset(make_world(nodeset, [tainted, *nodes(2)[1:]], [busy, make_pod(nodeset, 2)])).actions == []


@pytest.mark.parametrize("kwargs", [{"paused": True}, {"strategy": "OnDelete"}])
def test_no_roll_when_paused_or_on_delete(kwargs):
    nodeset = make_nodeset(**kwargs)
    assert decide_nodeset(make_world(nodeset, nodes(2), pods(nodeset, 2, template_hash="old"))).actions == []


TONIGHT, TODAY = Window(start="22:00", hours=4), Window(start="11:00", hours=4)


def test_a_roll_waits_for_its_window_and_stands_still_after_it():
    closed, opened = make_nodeset(windows=(TONIGHT,)), make_nodeset(windows=(TONIGHT, TODAY))
    waits = decide_nodeset(make_world(closed, nodes(2), pods(closed, 2, template_hash="old")))
    assert (waits.actions, waits.requeue_after_s) == ([], 10 * 3600)
    rolls = decide_nodeset(make_world(opened, nodes(2), pods(opened, 2, template_hash="old")))
    assert (marked(rolls), rolls.requeue_after_s) == ({("gpu-012-001", "rollout")}, 3 * 3600)
    busy = make_pod(closed, 1, template_hash="old", running="True", token="2026-11-20T11:30:00+00:00/rollout")
    assert [type(action) for action in decide_nodeset(make_world(closed, nodes(1), [busy])).actions] == [CancelPending]


def test_a_window_holds_up_nothing_but_a_roll():
    nodeset = make_nodeset(windows=(TONIGHT,), replicas=1)
    scaled = decide_nodeset(make_world(nodeset, nodes(2), pods(nodeset, 2)))
    assert {cause for _, cause in marked(scaled)} == {"scale-down"}
    assert decide_nodeset(make_world(nodeset, nodes(1), pods(nodeset, 1))).requeue_after_s is None


def test_pausing_calls_off_what_has_not_gone_yet():
    nodeset = make_nodeset(paused=True)
    pod = make_pod(nodeset, 1, template_hash="old", token="2026-11-20T11:30:00+00:00/rollout")
    assert [type(action) for action in decide_nodeset(make_world(nodeset, nodes(1), [pod])).actions] == [CancelPending]


def test_a_failed_pod_is_replaced_with_growing_pauses():
    nodeset = make_nodeset()
    seconds_ago = (NOW - timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    failed = make_pod(nodeset, 1, phase="Failed", reason="OutOfcpu", created=seconds_ago)
    first = decide_nodeset(make_world(nodeset, nodes(1), [failed]))
    assert deleted(first) == {("gpu-012-001", "failed")}
    fifth = decide_nodeset(make_world(nodeset, nodes(1), [failed], failures={"n1": 5}))
    assert fifth.actions == []
    assert fifth.requeue_after_s == 11.0


def test_deleting_the_nodeset_drains_every_pod_before_the_finalizer_goes():
    nodeset = make_nodeset(deleting=True)
    token = "2026-11-20T11:30:00+00:00/nodeset-deleted"
    found = [make_pod(nodeset, 1), make_pod(nodeset, 2, token=token, drained=token)]
    plan = decide_nodeset(make_world(nodeset, nodes(3), found))
    assert marked(plan) == {("gpu-012-001", "nodeset-deleted")}
    assert deleted(plan) == {("gpu-012-002", "drained")}
    assert not steps(plan, RemoveFinalizer)
    assert [type(a) for a in decide_nodeset(make_world(nodeset, nodes(3))).actions] == [RemoveFinalizer]
    gone = make_nodeset(deleting=True, finalizers=())
    assert decide_nodeset(make_world(gone, nodes(3))).actions == []


@pytest.mark.parametrize(("policy", "goes"), [("Wait", set()), ("Force", {("gpu-012-001", "drain-timeout")})])
def test_a_drain_that_takes_too_long_follows_the_policy(policy, goes):
    nodeset = make_nodeset(replicas=0, drain_timeout_s=600, drain_timeout_policy=policy)
    plan = decide_nodeset(make_world(nodeset, nodes(1), [make_pod(nodeset, 1, token=TOKEN, running="True")]))
    assert deleted(plan) == goes
    assert [pod.name for pod in plan.overdue] == ["gpu-012-001"]


def test_the_timeout_is_looked_at_in_time():
    nodeset = make_nodeset(replicas=0, drain_timeout_s=3600)
    plan = decide_nodeset(make_world(nodeset, nodes(1), [make_pod(nodeset, 1, token=TOKEN)]))
    assert plan.requeue_after_s == 1800.0


def test_a_pod_that_no_scheduler_has_bound_holds_its_node():
    nodeset = make_nodeset()
    pod = make_pod(nodeset, 1, bound=False, ready=False, running=None, drain=None)
    assert decide_nodeset(make_world(nodeset, nodes(1), [pod])).actions == []


def test_a_terminating_pod_holds_its_node_until_it_is_gone():
    nodeset = make_nodeset()
    assert decide_nodeset(make_world(nodeset, nodes(1), pods(nodeset, 1, deleting=True))).actions == []


def being_verified(number, of):
    """A cured Node whose record waits for the slurmd pod after that one."""
    waits = Record(state=State.VERIFY, at="2026-11-20T11:30:00Z", run=run_of(of))
    return make_node(number, annotations={names.ANNOTATION_HEALTH: waits.encode()})


def test_a_cured_node_gets_another_slurmd_pod_by_the_way_of_all_removals():
    nodeset = make_nodeset()
    first = make_pod(nodeset, 1)
    at = being_verified(1, first)
    assert marked(decide_nodeset(make_world(nodeset, [at], [first]))) == {("gpu-012-001", "verification")}
    token = "2026-11-20T11:59:00+00:00/verification"
    answered = make_pod(nodeset, 1, token=token, drained=token)
    assert deleted(decide_nodeset(make_world(nodeset, [at], [answered]))) == {("gpu-012-001", "drained")}
    busy = make_pod(nodeset, 1, token=token, drained=token, running="True")
    assert deleted(decide_nodeset(make_world(nodeset, [at], [busy]))) == set()
    second = make_pod(nodeset, 1, created="2026-11-20T11:59:00Z", ready=False)
    assert decide_nodeset(make_world(nodeset, [at], [second])).actions == [], "it is not replaced again"


def test_the_next_slurmd_pod_comes_to_the_node_that_is_to_be_checked():
    nodeset = make_nodeset(replicas=1)
    there = [make_node(1), being_verified(2, make_pod(nodeset, 2)), make_node(3)]
    assert created(decide_nodeset(make_world(nodeset, there))) == {("n2", "gpu-012-002")}


def test_no_pod_is_taken_to_be_checked_while_the_next_one_would_be_refused():
    nodeset = make_nodeset()
    first = make_pod(nodeset, 1)
    world = msgspec.structs.replace(make_world(nodeset, [being_verified(1, first)], [first]), create_error="quota")
    assert decide_nodeset(world).actions == []


def test_the_second_pod_of_a_node_goes():
    nodeset = make_nodeset()
    twin = make_pod(nodeset, 2, node="n1", created="2026-11-20T11:30:00Z")
    assert marked(decide_nodeset(make_world(nodeset, nodes(1), [twin, *pods(nodeset, 1)]))) == {
        ("gpu-012-002", "node-left: the node has another slurmd pod")
    }


def test_a_recreated_pod_gets_the_name_its_node_had():
    node = make_node(1, annotations={names.ANNOTATION_PLACED_ON: "gpu-007-007"})
    assert created(decide_nodeset(make_world(make_nodeset(), [node]))) == {("n1", "gpu-007-007")}


def test_a_template_that_the_apiserver_refuses_costs_no_pod():
    nodeset = make_nodeset()
    found = pods(nodeset, 2, template_hash="old")
    assert decide_nodeset(make_world(nodeset, nodes(2), found, create_error="image: Required value")).actions == []


@pytest.mark.parametrize(
    ("drained_at", "is_believed"),
    [
        pytest.param("2026-11-20T11:59:31Z", True, id="29 s old: the syncer renews it every 10 s"),
        pytest.param("2026-11-20T12:00:09Z", True, id="from a clock that is ahead"),
        pytest.param("2026-11-20T11:59:30Z", False, id="30 s old: the syncer is away, the admin may have resumed"),
        pytest.param("", False, id="no time"),
        pytest.param("2026-11-20T11:59:59", False, id="no zone"),
        pytest.param("2026-11-20T13:00:00Z", False, id="from a clock that has jumped"),
    ],
)
def test_a_receipt_is_believed_only_while_it_is_young(drained_at, is_believed):
    nodeset = make_nodeset(replicas=0)
    pod = make_pod(nodeset, 1, token=TOKEN, drained=TOKEN, drained_at=drained_at)
    assert bool(deleted(decide_nodeset(make_world(nodeset, nodes(1), [pod])))) is is_believed


def test_a_pod_of_an_earlier_nodeset_of_this_name_is_not_ours():
    nodeset = make_nodeset()
    earlier = msgspec.structs.replace(nodeset, metadata=msgspec.structs.replace(nodeset.metadata, uid="earlier"))
    assert not nodeset.owns(make_pod(earlier, 1))
    assert nodeset.owns(make_pod(nodeset, 1))


def test_pods_are_created_in_waves():
    many = [make_node(n, ip=f"10.0.{n // 200}.{n % 200}") for n in range(WAVE + 50)]
    world = make_world(make_nodeset(), many)
    plan = decide_nodeset(world)
    assert (len(created(plan)), plan.missing, plan.is_partial) == (WAVE, WAVE + 50, True)
    plan = decide_nodeset(msgspec.structs.replace(world, room_to_create=7))
    assert (len(created(plan)), plan.is_partial) == (7, True)
    assert not decide_nodeset(make_world(make_nodeset(replicas=20), many)).is_partial


def test_pods_are_marked_in_waves_and_what_keeps_a_pod_comes_first():
    nodeset = make_nodeset(replicas=1)
    many = [make_node(n, ip=f"10.0.{n // 200}.{n % 200}") for n in range(WAVE + 50)]
    found = pods(nodeset, WAVE + 49)
    plan = decide_nodeset(make_world(nodeset, many, found))
    assert (len(plan.actions), plan.is_partial) == (WAVE, True)
    back = make_nodeset(replicas=WAVE + 49)
    found[-1] = make_pod(nodeset, WAVE + 49, token=TOKEN)
    assert [type(action) for action in decide_nodeset(make_world(back, many, found)).actions] == [CancelPending]
    some = decide_nodeset(
        make_world(make_nodeset(replicas=0), many, [*found[:-1], make_pod(nodeset, 299, drained=TOKEN, token=TOKEN)])
    )
    assert isinstance(some.actions[0], DeletePod)
