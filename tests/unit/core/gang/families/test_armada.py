"""Gangs of Armada."""

from __future__ import annotations

import pytest

from tests.unit.core.gang.families.makers import bare, jobs_of, seen, wanted
from tests.unit.core.gang.families.workload import gang, manifest, pod


def member(name, queue="a", **annotations):
    annotations = {f"armadaproject.io/{key}": value for key, value in ({"gangId": "g"} | annotations).items()}
    return pod(name, labels={"armada_queue_id": queue}, annotations=annotations)


def test_its_pods_are_one_job_on_one_node(manifests):
    path = manifests / "armada/gang-pods.shape.yaml"
    pods = [bare(each, number) for number, each in enumerate(manifest(path))]
    (made,) = jobs_of(pods)
    assert seen([made]) == wanted(path)
    gang_id = pods[0].annotations["armadaproject.io/gangId"]
    assert (made.kind, made.is_complete) == (f"Armada gang default/{gang_id}", True)
    assert made.one_domain == "kubernetes.io/hostname"
    assert made.final_because == "Armada makes no pod again: it leases the job once more if the job may be retried"
    assert not jobs_of(pods[:2])[0].is_complete


def test_the_same_gang_id_in_another_queue_is_another_gang():
    assert len(jobs_of([member("a", gangCardinality="2"), member("b", "b", gangCardinality="2")])) == 2


def test_a_gang_of_one_is_a_pod():
    assert gang([member("a", gangCardinality="1")]).kind == "Pod default/a"


@pytest.mark.parametrize(
    ("cardinality", "text"),
    [("", "'' is not a number of pods"), ("0", "0 pods are no gang: at least 1"), ("x", "'x' is not a number of pods")],
)
def test_a_broken_cardinality(cardinality, text):
    made = gang([member("a", gangCardinality=cardinality)])
    assert [(str(each), each.fatal) for each in made.problems] == [
        (f"annotation armadaproject.io/gangCardinality: {text}", True)
    ]


def test_pods_that_disagree():
    made = gang([member("a", gangCardinality="2"), member("b", gangCardinality="3")])
    assert made.problems[0].text == "pods of a gang must agree: '2' and '3'"
