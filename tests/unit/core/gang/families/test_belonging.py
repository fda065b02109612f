"""What families use to identify a gang."""

from __future__ import annotations

import pytest

from sunkpy.core.gang.families import belonging
from sunkpy.core.gang.identity import parse_comment
from tests.unit.core.gang.families import test_jobset as jobset
from tests.unit.core.gang.families.workload import owner, pod


def a_job(name):
    return owner({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}})


@pytest.mark.parametrize("name", ["a", "a/b", "ä b", "x" * 300, "k8s:default/other:uid", "a\nb"])
def test_an_identity_made_of_a_name_survives_the_comment(name):
    id = belonging.named_id(pod("p"), "label", name, unit=belonging.distinct(name))
    assert parse_comment(id.comment("text")) == id


def test_the_owners_of_a_pod_are_those_that_made_it():
    top = owner({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}})
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": top.uid, "controller": True}
    meta = {"name": "r", "ownerReferences": [reference]}
    between = owner({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta})
    one = pod("p", owned_by=[between])
    assert belonging.controllers(one, [a_job("other"), top, between]) == (between, top)
    assert belonging.top(one, [between, top]) == "Deployment default/d"


def test_owners_that_own_one_another_end():
    reference = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "uid-of-x", "controller": True}
    circle = owner({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "ownerReferences": [reference]}})
    assert belonging.controllers(pod("p", owned_by=[circle]), [circle]) == (circle,)


def test_who_is_responsible_is_known_without_being_read():
    kind = jobset.jobset.JOB_SET
    js = jobset.jobset_of([("w", 1, 1)])
    child = jobset.job_of(js, "train-w-0")
    made = pod("p", owned_by=[child])
    assert belonging.made_by(made, kind, [child]).uid == js.uid
    assert belonging.made_by(made, kind) is None
    assert belonging.nearest([child, js], kind) is js
