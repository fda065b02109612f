"""Every family in any course of events: pods come, end and are made again, and Slurm does what it likes with the jobs.

A gang is bound whole or not at all, no pod runs without its job, and when nothing is taken away any more all run.
"""

from __future__ import annotations

from itertools import groupby

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.families import assemble, identify
from sunkpy.core.gang.phases import GangState
from sunkpy.core.gang.snapshot import Snapshot
from tests.unit.core.gang.families.courses import Course
from tests.unit.core.gang.families.ensembles import ENSEMBLES, OF_ONE, OF_THE_LEADER
from tests.unit.core.gang.simulator import FITS, World

EVENTS = (
    "all",
    "look",
    "start",
    "create",
    "late",
    "larger",
    "delete",
    "gone",
    "fail",
    "succeed",
    "restart",
    "take_over",
)
ODDITIES = ("odd", "mended")
SLURMS = ("preempt", "lose", "fewer nodes", "ended", "suspend", "resume", "requeue", "shrink")
STEPS = st.lists(st.tuples(st.sampled_from((*EVENTS, *ODDITIES, *SLURMS)), st.integers(0, 2)), max_size=14)


@pytest.mark.parametrize("name", [*ENSEMBLES, *OF_ONE])
@settings(max_examples=40)
@given(steps=STEPS)
def test_whatever_happens_it_ends_in_a_whole_gang(name, steps):
    course = Course(name)
    course.play("all", 0)
    for event, place in steps:
        course.play(event, place)
    course.settle()


def test_a_cover_that_was_left_without_any_node_where_pods_are_makes_way_for_another():
    course = Course("Ray")
    course.play("all", 0)
    for event, place in [("delete", 0), ("lose", 0), ("look", 0), ("delete", 1), ("fewer nodes", 0), ("shrink", 0)]:
        course.play(event, place)
    course.settle()


MADE_AGAIN = {
    "Ray, a head alone": [("preempt", 0), ("look", 0), ("gone", 0), ("look", 0), ("create", 0), ("look", 0)],
    "LeaderWorkerSet": [
        *[("delete", 0), ("preempt", 0), ("gone", 0), ("gone", 1), ("gone", 2)],
        *[("take_over", 0), ("look", 0), ("odd", 0), ("late", 1), ("look", 0)],
    ],
}


@pytest.mark.parametrize("name", MADE_AGAIN)
def test_a_pod_that_is_made_while_the_job_of_its_gang_ends_waits(name):
    """The only place is filled again; or a worker comes below a leader that is gone, while its set cannot be read."""
    course = Course(name)
    states = []
    for event, place in [("all", 0), *MADE_AGAIN[name]]:
        course.play(event, place)
        states += [unit.state for unit in course.units.values()]
    assert [state for state, _ in groupby(states)][-2:] == [GangState.ENDING, GangState.WAITING]
    course.settle()


SHRUNK = [
    ("Grove", [("succeed", 0), ("shrink", 0), ("shrink", 0)]),
    ("Grove, one beyond", [("delete", 0), ("shrink", 0)]),
    ("MPIJob", [("delete", 0), ("shrink", 0), ("shrink", 0)]),
    ("PodGroup, one beyond", [("fail", 0), ("shrink", 0), ("odd", 0), ("look", 0)]),
    ("PodGroup, one beyond", [("delete", 2), ("shrink", 0), ("all", 0), ("preempt", 0)]),
]


@pytest.mark.parametrize(("name", "steps"), SHRUNK)
def test_who_loses_a_node_of_a_smaller_job_takes_nobody_along(name, steps):
    """No other member is drawn to that node, the pod itself is covered, and who has no place any more gets a job."""
    course = Course(name)
    for event, place in [("all", 0), *steps]:
        course.play(event, place)
    course.settle()


def test_where_seats_differ_each_pod_of_a_lost_job_gets_one_of_its_own():
    course = Course("PodGroup, one beyond")
    for event, place in [("all", 0), ("all", 0), ("lose", 1), ("take_over", 0), ("lose", 0)]:
        course.play(event, place)
    course.settle()


def test_another_generation_waits_until_the_job_of_the_one_before_it_is_gone():
    course = Course("LeaderWorkerSet of one")
    for event in ("all", "preempt", "look", "gone", "create", "look"):
        course.play(event, 0)
    before, after = course.units
    assert before.generation != after.generation
    assert course.snapshot(after).waits_for == (
        f"generation {before.generation} of default/it (group-0) to end: Slurm job 1 is not over"
    )
    assert (course.submitted, course.snapshot(after).state) == (1, GangState.WAITING)
    course.play("ended", 0)
    course.look()
    assert course.submitted == 2


ALIKE = [name for name in ENSEMBLES if "beyond" not in name and name not in OF_THE_LEADER]
"""Ensembles whose pods all belong to one gang as they are made."""

STATUS = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.sampled_from(["", "Failed", "True", "2026-11-21T00:00:00Z"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["conditions", "type", "status", "restarts", "phase", "state", "suspend", "name", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("name", ALIKE)
@settings(max_examples=40)
@given(
    status=STATUS,
    annotations=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    place=st.integers(0, 2),
)
def test_what_changes_above_a_pod_never_makes_it_another_gang(name, status, annotations, place):
    owners, makers = ENSEMBLES[name]
    pod = makers[place](1)
    id = identify(pod, owners)
    raw = msgspec.Raw(msgspec.json.encode(status))
    changed = tuple(
        replace(owner, status=raw, metadata=replace(owner.metadata, annotations=annotations)) for owner in owners
    )
    ended = replace(pod, status=replace(pod.status, phase="Failed"), spec=replace(pod.spec, node_name="k"))
    deleted = replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-11-21T00:00:00Z"))
    for life in (pod, ended, deleted):
        assert identify(life, changed) == id
        gang = assemble(id, [life], changed)
        assert {each.uid for each in gang.members} == {life.uid}


@pytest.mark.parametrize("name", ALIKE)
@settings(max_examples=40)
@given(data=st.data())
def test_pods_that_lose_labels_and_annotations_stop_no_gang(name, data):
    owners, makers = ENSEMBLES[name]
    pods = [make(number) for number, make in enumerate(makers)]
    id = identify(pods[0], owners)
    changed = []
    for pod in pods:
        keep = {part: data.draw(st.sets(st.sampled_from(sorted(text)))) if text else set()
                for part, text in (("labels", pod.labels), ("annotations", pod.annotations))}  # fmt: skip
        meta = replace(
            pod.metadata,
            labels={key: pod.labels[key] for key in keep["labels"]},
            annotations={key: pod.annotations[key] for key in keep["annotations"]},
        )
        is_bound = data.draw(st.booleans())
        changed.append(replace(pod, metadata=meta, spec=replace(pod.spec, node_name="k" if is_bound else "")))
    for order in data.draw(st.permutations(changed)), changed:
        gang = assemble(id, order, owners)
        assert {pod.uid for pod in changed if pod.spec.node_name} <= {pod.uid for pod in gang.members}
        decide_gang(Snapshot(id=id, gang=gang, eligibility=FITS), World.policy)
