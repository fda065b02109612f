"""What families that group by a name share."""

from __future__ import annotations

import pytest

from sunkpy.core.gang.families import grouping
from sunkpy.core.gang.identity import parse_comment
from tests.unit.core.gang.families.workload import owner, pod

INDEX = "batch.kubernetes.io/job-completion-index"


def indexed(name, index, maker, **more):
    return pod(name, owned_by=[maker], labels={INDEX: index}, **more)


def a_job(name):
    return owner({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}})


@pytest.mark.parametrize("name", ["a", "a/b", "ä b", "x" * 300, "k8s:default/other:uid", "a\nb"])
def test_an_identity_made_of_a_name_survives_the_comment(name):
    id = grouping.named_id(pod("p"), "label", name, unit=grouping.distinct(name))
    assert parse_comment(id.comment("text")) == id


def test_ranks_of_one_owner_within_the_places_count():
    one = a_job("one")
    pods = [indexed("b", "1", one), indexed("a", "0", one), indexed("a2", "0", one, creationTimestamp="2026")]
    assert [(each.pod.name, each.index) for each in grouping.seated(pods, 2)] == [("a", 0), ("a2", 0), ("b", 1)]


@pytest.mark.parametrize(
    "pods",
    [
        [indexed("a", "0", a_job("one")), indexed("b", "0", a_job("two"))],
        [indexed("a", "0", a_job("one")), indexed("b", "2", a_job("one"))],
        [indexed("a", "0", a_job("one")), indexed("b", "x", a_job("one"))],
        [indexed("a", "0", a_job("one")), pod("b", owned_by=[a_job("one")])],
    ],
)
def test_otherwise_age_counts(pods):
    assert [each.index for each in grouping.seated(pods, 2)] == [-1, -1]


def test_options_of_the_oldest_pod_come_first_and_owners_last():
    pods = [
        pod("b", annotations={"sunkpy.dev/qos": "late"}, creationTimestamp="2027"),
        pod("a", annotations={"sunkpy.dev/qos": "early"}, creationTimestamp="2026"),
    ]
    above = owner({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "annotations": {"sunkpy.dev/qos": "no"}}})
    options, problems = grouping.options_of(pods, [above])
    assert (options.qos, problems) == ("early", ())


def test_the_owners_of_a_pod_are_those_that_made_it():
    top = owner({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}})
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": top.uid, "controller": True}
    meta = {"name": "r", "ownerReferences": [reference]}
    between = owner({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta})
    one = pod("p", owned_by=[between])
    assert grouping.controllers(one, [a_job("other"), top, between]) == (between, top)
    assert grouping.top(one, [between, top]) == "Deployment default/d"


def test_owners_that_own_one_another_end():
    reference = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "uid-of-x", "controller": True}
    circle = owner({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "ownerReferences": [reference]}})
    assert grouping.controllers(pod("p", owned_by=[circle]), [circle]) == (circle,)
