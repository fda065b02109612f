"""The door for families: a family of three pods in two roles passes through decisions and hooks untouched by them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.gang.actions import Bind, Evict, Finish, Submit
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.families import FAMILIES, assemble, identify
from sunkpy.core.gang.hooks import epilog_waits_for, prolog_waits_for
from sunkpy.core.gang.identity import GangId, parse_comment
from sunkpy.core.gang.request import Policy
from sunkpy.core.gang.view import GangView, JobView
from sunkpy.core.model.objects import Owner, OwnerReference, Pod, SchedulingGroup, WorkloadReference
from sunkpy.core.placement.eligibility import Eligibility
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.trio import WITH_TRIO, labels

FIELDS = [
    *("x", "name", "templates", "nodes", "retryStrategy", "retryPolicy", "parallelism", "backoffLimit", "failed"),
    *("podFailurePolicy", "rules", "onPodConditions", "type", "conditions", "minMember", "podGroups", "policy", "gang"),
    *("minCount", "schedulingPolicy", "basic", "schedulingConstraints", "topology", "key"),
]
ANNOTATIONS = [
    *("sunkpy.dev/gang", "sunkpy.dev/gang-size", "sunkpy.dev/gang-roles", "sunkpy.dev/gang-role"),
    *("armadaproject.io/gangId", "armadaproject.io/gangCardinality", "armadaproject.io/gangNodeUniformityLabel"),
    *("yunikorn.apache.org/task-groups", "yunikorn.apache.org/task-group-name", "yunikorn.apache.org/app-id"),
]

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


TEXTS = st.text(max_size=20) | st.sampled_from(["", "0", "-1", "3", "a=1,b=2", "[]", "[{}]", "9" * 5000, "[" * 100_000])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)
KINDS = [
    ("batch/v1", "Job"),
    ("argoproj.io/v1alpha1", "Workflow"),
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
    ("scheduling.k8s.io/v1alpha1", "Workload"),
    ("scheduling.k8s.io/v1alpha2", "PodGroup"),
]


@given(
    annotations=st.dictionaries(st.sampled_from(ANNOTATIONS), TEXTS),
    spec=JSON,
    status=JSON,
    kind=st.sampled_from(KINDS),
)
def test_nothing_that_people_write_breaks_the_door(annotations, spec, status, kind):
    version, name = kind
    meta = {"name": "x", "namespace": "default", "uid": "uid-of-x"}
    body = {"apiVersion": version, "kind": name, "metadata": meta, "spec": spec, "status": status}
    above = msgspec.json.decode(msgspec.json.encode(body), type=Owner)
    reference = OwnerReference(api_version=version, kind=name, name="x", uid="uid-of-x", controller=True)
    made = make_pod(annotations=annotations)
    labels = {"scheduling.x-k8s.io/pod-group": "x"} if version.startswith("scheduling.x") else {"applicationId": "x"}
    meta = msgspec.structs.replace(made.metadata, owner_references=(reference,), labels=labels)
    groups = {
        "scheduling.k8s.io/v1alpha1": {"workload_ref": WorkloadReference(name="x", pod_group="x")},
        "scheduling.k8s.io/v1alpha2": {"scheduling_group": SchedulingGroup(pod_group_name="x")},
    }
    pod = Pod(metadata=meta, spec=msgspec.structs.replace(made.spec, **groups.get(version, {})))
    id = identify(pod, [above])
    gang = assemble(id, [pod], [above])
    assert gang.members in ((pod,), ())
    assert parse_comment(id.comment()) == id


def test_members_stand_in_rank_order():
    assert [pod.name for pod in view(trio()).pods] == ["leader-1", "worker-1", "worker-2"]


def test_nothing_is_submitted_before_all_are_there():
    assert decide_gang(view(trio()[:2]), POLICY) == []
    (submit,) = decide_gang(view(trio()), POLICY)
    assert isinstance(submit, Submit)
    assert (submit.request.minimum_nodes, submit.request.comment) == (3, "k8s:default/band:uid-of-band")
    assert len(submit.pods) == 3


def test_nobody_is_bound_before_the_job_has_all_its_nodes():
    begun = JobView(id=7, state=frozenset({"RUNNING", "CONFIGURING"}), prologs=frozenset({"n1", "n2"}))
    assert decide_gang(view(trio(), begun), POLICY) == []
    started = JobView(id=7, state=frozenset({"RUNNING"}), prologs=frozenset(ALL_NODES))
    placed = {action.pod.name: action.slurm_node for action in decide_gang(view(trio(), started), POLICY)}
    assert placed == {"leader-1": "n1", "worker-1": "n2", "worker-2": "n3"}


def test_a_gang_that_was_bound_in_part_gets_its_other_nodes():
    pods = [member("leader", 1, node="k"), member("worker", 1), member("worker", 2, node="k")]
    running = JobView(id=7, state=frozenset({"RUNNING"}), prologs=frozenset(ALL_NODES))
    seen = view(pods, running, placed={"leader-1": "n2", "worker-2": "n1"}, bound_to=7)
    (bind,) = decide_gang(seen, POLICY)
    assert isinstance(bind, Bind)
    assert (bind.pod.name, bind.slurm_node) == ("worker-1", "n3")


def test_every_prolog_waits_for_all_members():
    started = JobView(id=7, state=frozenset({"RUNNING"}), prologs=frozenset(ALL_NODES))
    pods, placed = bound()
    assert prolog_waits_for(view([*pods[:2], member("worker", 1)], started, placed=placed, bound_to=7), 7) == (
        "pod default/worker-1 is not bound yet"
    )
    assert prolog_waits_for(view(pods, started, placed=placed, bound_to=7), 7) is None


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
