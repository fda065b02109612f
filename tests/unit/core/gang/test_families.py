"""The door for families: a family of three pods in two roles passes through decisions and hooks untouched by them."""

from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.gang.actions import Bind, Evict, Finish, Report, Submit
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.families import FAMILIES, assemble, identify
from sunkpy.core.gang.hooks import epilog_waits_for, prolog_waits_for
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.request import Policy
from sunkpy.core.gang.view import GangView, JobView
from sunkpy.core.placement.eligibility import Eligibility
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.trio import WITH_TRIO, labels

POLICY = Policy(gpu_resources={})
FITS = Eligibility(eligible=("n1", "n2", "n3"))
ALL_NODES = ("n1", "n2", "n3")


def member(role, number, **pod):
    made = make_pod(f"{role}-{number}", uid=f"{role}-{number}", **pod)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=labels(role)))


def trio(**pod):
    return [member("worker", 2, **pod), member("leader", 1, **pod), member("worker", 1, **pod)]


def view(pods, *jobs, placed=None, **fields):
    id = identify(pods[0], families=WITH_TRIO)
    gang = assemble(id, pods, families=WITH_TRIO)
    return GangView(id=id, gang=gang, jobs=jobs, placed=placed or {}, eligibility=FITS, **fields)


def bound(**pod):
    pods = trio(node="k", **pod)
    return pods, {"leader-1": "n1", "worker-1": "n2", "worker-2": "n3"}


def test_every_pod_has_a_family_and_the_first_that_knows_it_has_it():
    assert {identify(pod, families=WITH_TRIO) for pod in trio()} == {
        GangId(namespace="default", name="band", uid="uid-of-band")
    }
    assert identify(make_pod(), families=WITH_TRIO) == GangId(namespace="default", name="web-1", uid="uid-1")
    with pytest.raises(LookupError, match="no family takes pod default/web-1"):
        identify(make_pod(), families=WITH_TRIO[:1])
    assert FAMILIES[-1].name == "plain pod"


def test_members_stand_in_rank_order():
    assert [pod.name for pod in view(trio()).pods] == ["leader-1", "worker-1", "worker-2"]


def test_nothing_is_submitted_before_all_are_there():
    actions = decide_gang(view(trio()[:2]), POLICY)
    assert [(type(a), a.message, a.is_problem) for a in actions] == [
        (Report, "waits for 1 of 3 pods (worker 1 of 2)", False)
    ] * 2
    (submit,) = decide_gang(view(trio()), POLICY)
    assert isinstance(submit, Submit)
    assert (submit.request.minimum_nodes, submit.request.comment) == (3, "k8s:default/band:uid-of-band")
    assert len(submit.pods) == 3


def test_nobody_is_bound_before_the_job_has_all_its_nodes():
    begun = JobView(id=7, state=frozenset({"RUNNING", "CONFIGURING"}), prologs=frozenset({"n1", "n2"}))
    assert decide_gang(view(trio(), begun), POLICY) == []
    started = JobView(id=7, state=frozenset({"RUNNING"}), prologs=frozenset(ALL_NODES))
    (bind,) = decide_gang(view(trio(), started), POLICY)
    placed = {binding.pod.name: (binding.slurm_node, binding.place) for binding in bind.bindings}
    assert placed == {"leader-1": ("n1", "leader/0"), "worker-1": ("n2", "worker/0"), "worker-2": ("n3", "worker/1")}


def test_rank_goes_along_the_nodes_in_the_order_of_the_job():
    started = JobView(id=7, state=frozenset({"RUNNING"}), nodes=("n3", "n1", "n2"), prologs=frozenset(ALL_NODES))
    (bind,) = decide_gang(view(trio(), started), POLICY)
    assert [binding.slurm_node for binding in bind.bindings] == ["n3", "n1", "n2"]


def test_a_gang_that_was_bound_in_part_gets_its_other_nodes():
    pods = [member("leader", 1, node="k"), member("worker", 1), member("worker", 2, node="k")]
    running = JobView(id=7, state=frozenset({"RUNNING"}), prologs=frozenset(ALL_NODES))
    seen = view(pods, running, placed={"leader-1": "n2", "worker-2": "n1"}, bound_to=7)
    (bind,) = decide_gang(seen, POLICY)
    assert isinstance(bind, Bind)
    (binding,) = bind.bindings
    assert (binding.pod.name, binding.slurm_node) == ("worker-1", "n3")


def test_a_prolog_waits_for_the_members_that_go_to_its_node():
    started = JobView(id=7, state=frozenset({"RUNNING"}), nodes=ALL_NODES, prologs=frozenset(ALL_NODES))
    pods, placed = bound()
    seen = view([*pods[:2], member("worker", 1)], started, placed=placed, bound_to=7)
    assert prolog_waits_for(seen, 7, "n2") == "pod default/worker-1 is not bound yet"
    assert prolog_waits_for(seen, 7, "n1") is None
    assert prolog_waits_for(view(pods, started, placed=placed, bound_to=7), 7, "n2") is None


def test_a_gang_goes_as_one_and_each_epilog_waits_for_its_own_node():
    pods, placed = bound(running=True)
    preempted = JobView(id=7, state=frozenset({"PREEMPTED", "COMPLETING"}))
    seen = view(pods, preempted, placed=placed, bound_to=7)
    actions = decide_gang(seen, POLICY)
    assert [type(action) for action in actions] == [Evict, Evict, Evict]
    assert epilog_waits_for(seen, 7, "n1") == "pod default/leader-1 is not gone yet"
    without_leader = view([pod for pod in pods if pod.name != "leader-1"], preempted, placed=placed, bound_to=7)
    assert epilog_waits_for(without_leader, 7, "n1") is None
    assert epilog_waits_for(without_leader, 7, "n3") == "pod default/worker-2 is not gone yet"


@pytest.mark.parametrize(("phases", "exit_code"), [(("Succeeded",) * 3, 0), (("Succeeded", "Failed", "Succeeded"), 1)])
def test_the_job_ends_with_the_exit_code_of_all(phases, exit_code):
    names = (("leader", 1), ("worker", 1), ("worker", 2))
    pods = [member(*name, node="k", phase=phase) for name, phase in zip(names, phases, strict=True)]
    running = JobView(id=7, state=frozenset({"RUNNING"}))
    assert decide_gang(view(pods, running, bound_to=7), POLICY) == [Finish(job=7, exit_code=exit_code)]
    still = [*pods[:2], member("worker", 2, node="k", phase="Running", running=True)]
    assert decide_gang(view(still, running, bound_to=7), POLICY) == []
