"""PodGroups of the scheduler plugins."""

from __future__ import annotations

import pytest

from sunkpy.core.gang.families import pod_group
from sunkpy.core.gang.gang import Link
from tests.unit.core.gang.families.makers import bare, documents, jobs_of, replica_set, seen, wanted
from tests.unit.core.gang.families.workload import gang, manifest, owner, pod, seats, too_many

LABEL = "scheduling.x-k8s.io/pod-group"


def group(spec, version="scheduling.x-k8s.io/v1alpha1"):
    return owner({"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "nginx"}, "spec": spec})


def test_the_minimum_is_one_job_and_each_pod_beyond_it_another(manifests):
    path = manifests / "scheduler-plugins/podgroup-replicaset.yaml"
    made = owner(documents(path)["PodGroup"], uid="uid-of-group")
    owners, pods = replica_set(documents(path)["ReplicaSet"])
    gangs = jobs_of(pods, [*owners, made])
    assert seen(gangs) == wanted(path)
    assert (gangs[0].kind, gangs[0].final_because) == (f"PodGroup default/{made.name}", "")
    assert gangs[1].kind == f"ReplicaSet default/{owners[0].name}, pod {pods[3].name}"
    assert not jobs_of(pods[:2], [*owners, made])[0].is_complete


def test_bare_pods_with_options_on_the_group(manifests):
    path = manifests / "slurm-bridge/podgroup-coscheduling.yaml"
    document, *pods = manifest(path)
    document["metadata"]["annotations"]["slurmjob.slinky.slurm.net/partition"] = "low"
    (made,) = jobs_of([bare(each, number) for number, each in enumerate(pods)], [owner(document)])
    assert seen([made]) == wanted(path)
    assert (made.is_complete, made.final_because) == (True, "nothing makes a bare pod again")
    assert made.options.partition == "low"


def test_a_bound_pod_keeps_its_place_before_an_older_one_that_waits():
    pods = [pod(f"p-{n}", labels={LABEL: "nginx"}, creationTimestamp=f"2026-11-21T00:00:0{n}Z") for n in range(2)]
    pods.append(pod("q", labels={LABEL: "nginx"}, spec={"nodeName": "n"}, creationTimestamp="2026-11-21T00:00:09Z"))
    made = gang(pods, [group({"minMember": 2})])
    assert seats(made)["pod"] == (2, 2, [("q", -1), ("p-0", -1)])


def test_the_label_of_the_first_versions():
    one = pod("a", labels={"pod-group.scheduling.sigs.k8s.io": "nginx"})
    made = gang([one], [group({"minMember": 2}, "scheduling.sigs.k8s.io/v1alpha1")])
    assert (made.seats, made.refused) == (2, "")
    assert pod_group.FAMILY.refers(one) == (
        Link(kind=pod_group.LABELS["pod-group.scheduling.sigs.k8s.io"], namespace="default", name="nginx"),
    )


@pytest.mark.parametrize(
    ("owners", "refused"),
    [
        ([], "PodGroup default/nginx, named by label scheduling.x-k8s.io/pod-group, does not exist"),
        ([group({"minMember": 0})], "PodGroup default/nginx: spec.minMember: 0 pods are no gang: at least 1"),
        ([group({"minMember": -1})], "PodGroup default/nginx: spec.minMember: -1 pods are no gang: at least 1"),
        (
            [group({"minMember": 1 << 31})],
            too_many("PodGroup default/nginx", 1 << 31),
        ),
        (
            [group({"minMember": "two"})],
            "scheduler-plugins PodGroup default/nginx cannot be read: Expected `int`, got `str` - at `$.minMember`",
        ),
    ],
)
def test_a_group_that_cannot_be_used_is_refused_and_keeps_its_pods(owners, refused):
    made = gang([pod("a", labels={LABEL: "nginx"}), pod("b", labels={LABEL: "nginx"})], owners)
    assert made.refused == refused
    assert [each.name for each in made.members] == ["a", "b"]


def test_its_identity_is_the_same_whether_the_group_is_there_or_not():
    one = pod("a", labels={LABEL: "nginx"})
    assert gang([one]).id == gang([one], [group({"minMember": 1})]).id
    assert gang([one]).id != gang([pod("a", labels={"pod-group.scheduling.sigs.k8s.io": "nginx"})]).id
