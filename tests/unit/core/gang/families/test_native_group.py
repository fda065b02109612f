"""Kubernetes' own Workload and PodGroup."""

from __future__ import annotations

import pytest

from sunkpy.core.gang.families import native_group
from sunkpy.core.gang.gang import Link
from tests.unit.core.gang.families.makers import documents, job, jobs_of, seen, wanted
from tests.unit.core.gang.families.workload import gang, owner, pod, seats


def workload(*groups):
    is_a = {"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload"}
    return owner({**is_a, "metadata": {"name": "w"}, "spec": {"podGroups": groups}})


def pod_group(spec, version="v1alpha2"):
    meta = {"name": "pg"}
    return owner({"apiVersion": f"scheduling.k8s.io/{version}", "kind": "PodGroup", "metadata": meta, "spec": spec})


def of_workload(name, group="workers", **more):
    return pod(name, spec={"workloadRef": {"name": "w", "podGroup": group, **more}})


def of_group(name):
    return pod(name, spec={"schedulingGroup": {"podGroupName": "pg"}})


GANG_OF_2 = {"gang": {"minCount": 2}}


def test_a_job_with_a_workload_is_a_gang(manifests):
    path = manifests / "native/workload-gang-job-1.35.yaml"
    document = documents(path)["Workload"]
    made = owner(document)
    owners, pods = job(documents(path)["Job"])
    (found,) = jobs_of(pods, [*owners, made])
    assert seen([found]) == wanted(path)
    of_workload = f"{made.metadata.namespace}/{made.name}, group {document['spec']['podGroups'][0]['name']}"
    assert (found.kind, found.is_complete) == (f"Workload {of_workload}", True)
    assert (found.final_because, found.expects_more) == ("", True)
    assert found.options.time_limit_min == 5
    assert not jobs_of(pods[:1], [*owners, made])[0].is_complete


def test_a_job_with_a_pod_group_is_a_gang(manifests):
    path = manifests / "native/podgroup-gang-job-1.37.yaml"
    made = owner(documents(path)["PodGroup"])
    owners, pods = job(documents(path)["Job"])
    (found,) = jobs_of(pods, [*owners, made])
    assert seen([found]) == wanted(path)
    assert (found.kind, found.is_complete) == ("PodGroup team-a/together", True)
    assert not jobs_of(pods[:1], [*owners, made])[0].is_complete


def test_each_replica_of_a_group_is_a_gang():
    made = workload({"name": "workers", "policy": GANG_OF_2}, {"name": "head", "policy": {"basic": {}}})
    pods = [of_workload(f"{key}-{n}", podGroupReplicaKey=key) for key in ("a", "b") for n in range(2)]
    gangs = jobs_of([*pods, of_workload("c")], [made])
    assert [(each.id.unit, each.seats, len(each.members)) for each in gangs] == [
        ("workers.a", 2, 2),
        ("workers.b", 2, 2),
        ("workers", 2, 1),
    ]


def test_under_the_policy_basic_each_pod_is_a_job():
    basic = {"basic": {}}
    made = jobs_of([of_workload("a"), of_workload("b")], [workload({"name": "workers", "policy": basic})])
    assert [(each.seats, each.is_complete, each.refused) for each in made] == [(1, True, "")] * 2
    made = jobs_of([of_group("a"), of_group("b")], [pod_group({"schedulingPolicy": basic})])
    assert [(each.seats, each.is_complete, each.refused) for each in made] == [(1, True, "")] * 2


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
def test_a_pod_group_of_1_36_and_later(version):
    topology = {"topology": [{"key": "topology.kubernetes.io/rack"}]}
    made = pod_group({"schedulingPolicy": GANG_OF_2, "schedulingConstraints": topology}, version)
    found = gang([of_group("a"), of_group("b")], [made])
    assert seats(found) == {"pod": (2, 2, [("a", -1), ("b", -1)])}
    assert (found.kind, found.one_domain) == ("PodGroup default/pg", "topology.kubernetes.io/rack")


@pytest.mark.parametrize(
    ("groups", "refused"),
    [
        ([], "Workload default/w, group workers: there is no pod group 'workers' in it"),
        (
            [{"name": "workers", "policy": {}}],
            "Workload default/w, group workers: the policy is neither gang nor basic",
        ),
        (
            [{"name": "workers", "policy": {"gang": {}}}],
            "Workload default/w, group workers: policy gang without minCount",
        ),
        (
            [{"name": "workers", "policy": {"gang": {"minCount": 0}}}],
            "Workload default/w, group workers: 0 pods are no gang: at least 1",
        ),
        (
            [{"name": "workers", "policy": {"gang": {"minCount": "2"}}}],
            "Kubernetes group default/w (workers) cannot be read: "
            "Expected `int | null`, got `str` - at `$.podGroups[0].policy.gang.minCount`",
        ),
    ],
)
def test_a_workload_that_cannot_be_used(groups, refused):
    found = gang([of_workload("a")], [workload(*groups)])
    assert (found.refused, len(found.members)) == (refused, 1)


@pytest.mark.parametrize("policy", [GANG_OF_2, {"basic": {}}])
def test_a_group_of_groups_is_refused(policy):
    made = pod_group({"schedulingPolicy": policy, "parentCompositePodGroupName": "all"}, "v1beta1")
    assert gang([of_group("a")], [made]).refused == (
        "PodGroup default/pg: it is part of CompositePodGroup all, and groups of groups do not start together here: "
        "make one PodGroup of all pods, or leave parentCompositePodGroupName out"
    )


def test_a_group_that_is_not_there():
    assert gang([of_workload("a")]).refused == "Workload default/w, named by the pod's spec, does not exist"
    assert gang([of_group("a")]).refused == "PodGroup default/pg, named by the pod's spec, does not exist"
    assert gang([of_group("a")]).id == gang([of_group("a")], [pod_group({"schedulingPolicy": GANG_OF_2})]).id


def test_what_a_pod_refers_to():
    refers = native_group.FAMILY.refers
    assert refers(of_group("a")) == (Link(kind=native_group.POD_GROUP, namespace="default", name="pg"),)
    assert refers(of_workload("a")) == (Link(kind=native_group.WORKLOAD, namespace="default", name="w"),)
    assert refers(pod("a")) == ()
