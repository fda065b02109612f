"""How long a job keeps nodes on which there is no pod of its gang, and what people are told meanwhile."""

import pytest

from sunkpy.core.gang.actions import Bind, Cancel, MakeSolo, Report, Submit, WaitCause, Warn
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.decide.ending import IDLE_PATIENCE_S
from sunkpy.core.gang.families import assemble, identify
from sunkpy.core.gang.limits import deciding_specs
from sunkpy.core.gang.snapshot import Refusal, Snapshot
from sunkpy.core.model.objects import SchedulingGate
from tests.unit.core.gang.jobs import make_job
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.test_decide import FITS, POLICY
from tests.unit.core.gang.test_families import RUNS, band, band_view

PAIR = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": "2"}
GATE = (SchedulingGate(name="example.com/quota"),)
KEPT = {"deleting": True, "finalizers": ("example.com/books",)}
SOON_S = IDLE_PATIENCE_S - 1
ON_BOTH = make_job("RUNNING", nodes=("n1", "n2"), tasks=2)
OVER = {"node": "k1", "phase": "Succeeded"}

GATED = (
    "scheduling gate example.com/quota holds pod b: whoever set the gate has to remove it; if nobody does, delete the "
    "pod"
)
DELETED = (
    "finalizer example.com/books keeps pod b, which is deleted: whoever set the finalizer has to remove it; if nobody "
    "does, remove it yourself"
)
MISSING = "1 of 2 pods (pod 1 of 2)"
IN_VAIN = "for 120 s Slurm job 7 had its nodes and no pod on them, so it is cancelled"


def mate(name, **fields):
    return make_pod(name, uid=name, annotations=PAIR, **fields)


def view(*pods, job=ON_BOTH, bound=False, **fields):
    id = identify(pods[0], ())
    placed = {pod.uid: "n1" for pod in pods if pod.spec.node_name}
    known = {"eligibility": FITS, "placed": placed, "bound_to": job.id if bound else None}
    return Snapshot(id=id, gang=assemble(id, pods), jobs=(job,), **known | fields)


HELD = [
    ({"scheduling_gates": GATE}, f"waits: {GATED}", GATED, WaitCause.GATED),
    (KEPT, f"waits for {MISSING}; {DELETED}", f"{MISSING}; {DELETED}", WaitCause.MEMBERS),
    (KEPT | {"scheduling_gates": GATE}, f"waits for {MISSING}; {DELETED}", f"{MISSING}; {DELETED}", WaitCause.MEMBERS),
]


@pytest.mark.parametrize(("held", "waits", "why", "cause"), HELD)
def test_the_pods_of_a_job_that_waits_say_what_holds_another_one_and_who_can_change_it(held, waits, why, cause):
    a, b = mate("a"), mate("b", **held)
    (told,) = decide_gang(view(a, b, idle_s=SOON_S), POLICY)
    assert told == Report(pod=a, message=f"Slurm job 7 runs and {waits}", cause=cause)


@pytest.mark.parametrize(("held", "waits", "why", "cause"), HELD)
def test_a_job_gives_its_nodes_back_if_a_pod_is_held_for_too_long(held, waits, why, cause):
    b = mate("b", **held)
    assert decide_gang(view(mate("a"), b, idle_s=IDLE_PATIENCE_S), POLICY) == [
        Cancel(job=7, why=f"for 120 s no pod was on its nodes: {why}"),
        Warn(pod=b, reason="FailedScheduling", note=f"{IN_VAIN}: {why}"),
    ]


@pytest.mark.parametrize(("held", "waits", "why", "cause"), HELD)
def test_so_does_a_job_whose_other_pods_have_ended(held, waits, why, cause):
    a, b = mate("a", **OVER), mate("b", **held)
    assert decide_gang(view(a, b, bound=True, idle_s=SOON_S), POLICY) == []
    assert decide_gang(view(a, b, bound=True, idle_s=IDLE_PATIENCE_S), POLICY) == [
        Cancel(job=7, why=f"for 120 s no pod was on its nodes: {why}"),
        Warn(pod=b, reason="FailedScheduling", note=f"{IN_VAIN}: {why}"),
    ]


@pytest.mark.parametrize(("held", "waits", "why", "cause"), HELD)
def test_a_job_with_a_pod_on_a_node_stays_whatever_holds_another_one(held, waits, why, cause):
    a, b = mate("a", node="k1", running=True), mate("b", **held)
    # The clock of the job's idle time may be older than the pod's node.
    assert decide_gang(view(a, b, bound=True, idle_s=1000.0), POLICY) == []


def test_a_deleted_pod_that_was_replaced_holds_nobody_up():
    old = make_pod("old", uid="old", scheduling_gates=GATE, **KEPT)
    gang, (_, new) = band(("leader", 0, old), ("leader", 0, make_pod("new", uid="new")))
    (bind,) = decide_gang(band_view(gang, RUNS), POLICY)
    assert (type(bind), [each.pod for each in bind.bindings]) == (Bind, [new])
    assert [type(action) for action in decide_gang(band_view(gang), POLICY)] == [Submit]


def test_the_gate_of_a_pod_of_a_later_wave_does_not_hold_up_the_first_wave():
    gang, (leader, worker) = band(
        ("leader", 0, make_pod()), ("worker", 0, make_pod("w", uid="w", scheduling_gates=GATE))
    )
    (bind,) = decide_gang(band_view(gang, RUNS, idle_s=1000.0), POLICY)
    assert [each.pod.name for each in bind.bindings] == [leader.name]
    gang, _ = band(("leader", 0, make_pod(node="k1", running=True)), ("worker", 0, worker))
    later = band_view(gang, RUNS, bound_to=7, placed={"uid-1": "n1"}, idle_s=1000.0)
    assert decide_gang(later, POLICY) == []


def test_after_a_first_wave_that_has_ended_the_next_job_is_for_the_pods_after_it():
    """The job before was preempted, and the owner makes only the later pod again."""
    gang, (leader, worker) = band(("leader", 0, make_pod(phase="Succeeded")), ("worker", 0, make_pod("w", uid="w")))
    assert (gang.first_wave, deciding_specs(gang)) == ((worker,), [worker.spec]), "the nodes are those for its pods"
    both, _ = band(("leader", 0, leader), ("leader", 1, make_pod("b", uid="b")), ("worker", 0, worker))
    assert [pod.name for pod in both.first_wave] == ["b"]
    (bind,) = decide_gang(band_view(gang, RUNS), POLICY)
    assert [each.pod for each in bind.bindings] == [worker]


def test_a_job_stays_while_a_node_is_asked_again_for_its_pod():
    """The wait for a volume may be longer than a job's patience."""
    gang, _ = band(("leader", 0, make_pod(**OVER)), ("worker", 1, make_pod("w", uid="w")))
    asked = {"w": Refusal(why="full", since=0.0, times=1, again_at=1.0)}
    known = {"bound_to": 7, "refusals": asked, "idle_s": 1000.0}
    (told,) = decide_gang(band_view(gang, RUNS, **known), POLICY)
    assert told.cause is WaitCause.KUBELET
    (bind,) = decide_gang(band_view(gang, RUNS, now=2.0, **known), POLICY)
    assert isinstance(bind, Bind)


def test_a_job_whose_pod_gets_a_job_of_its_own_is_decided_about_without_that_pod():
    job = make_job("RUNNING", nodes=("n1",), tasks=1)
    (action,) = decide_gang(view(mate("a", **OVER), mate("b"), job=job, bound=True, idle_s=1000.0), POLICY)
    assert isinstance(action, Bind | MakeSolo)


def test_a_job_waits_for_its_prologs_as_long_as_they_take():
    job = make_job("RUNNING", "CONFIGURING", nodes=("n1", "n2"), tasks=2, prologs=("n1",))
    assert decide_gang(view(mate("a"), mate("b"), job=job, idle_s=1000.0), POLICY) == []


def test_a_job_none_of_whose_pods_has_a_seat_gives_its_nodes_back_too():
    gang, _ = band(("leader", 3, make_pod()))
    assert decide_gang(band_view(gang, RUNS, idle_s=SOON_S), POLICY) == []
    assert decide_gang(band_view(gang, RUNS, idle_s=IDLE_PATIENCE_S), POLICY) == [
        Cancel(job=7, why="for 120 s no pod was on its nodes: none of its pods can be bound")
    ]
