"""Whatever the course of events, the sums are those of what is there now."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.model.objects import Condition, Meta, Pod, PodSpec
from sunkpy.core.model.quantity import BadQuantity
from sunkpy.core.nodeset.decide import decide_nodeset
from sunkpy.core.nodeset.status import report
from sunkpy.core.nodeset.survey import Survey, make_survey
from sunkpy.core.nodeset.verdict import NodeView, Trait
from sunkpy.core.nodeset.wanted import Wanted
from sunkpy.core.nodeset.world import World
from tests.unit.core.nodeset.build import NOW, make_node, make_nodeset, make_pod, make_template

NODES = 5
ROLL, SHRINK = "2026-11-20T11:30:00+00:00/rollout", "2026-11-20T11:30:00+00:00/scale-down"
OTHER = make_nodeset(name="cpu")
HELD = Condition(type=names.CONDITION_CORDON, status="True", reason="DrainedInSlurm")


@st.composite
def nodesets(draw):
    return make_nodeset(
        template=make_template(nodeSelector={"pool": "gpu"}),
        replicas=draw(st.sampled_from([None, 0, 2, 4])),
        max_unavailable=draw(st.sampled_from([1, "50%"])),
        drain_timeout_s=draw(st.sampled_from([None, 60])),
        annotations=draw(st.sampled_from([{}, {names.ANNOTATION_REMOVAL_CAP: "1"}])),
        deleting=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def pods_of(draw, nodeset, number):
    token = draw(st.sampled_from([None, None, ROLL, SHRINK]))
    return make_pod(
        nodeset,
        number,
        name=f"{nodeset.name}-012-{number:03d}-{draw(st.integers(0, 1))}",
        bound=draw(st.booleans()),
        ready=draw(st.booleans()),
        running=draw(st.sampled_from(["True", "False", None])),
        drain=draw(st.sampled_from(["True", "False"])),
        cordon=draw(st.sampled_from([None, HELD])),
        token=token,
        drained=draw(st.sampled_from([None, token])),
        created=draw(st.sampled_from(["2026-11-20T11:00:00Z", "2026-11-20T11:59:00Z"])),
        deleting=draw(st.sampled_from([False, False, True])),
        phase=draw(st.sampled_from(["Running", "Running", "Failed"])),
        template_hash=draw(st.sampled_from([None, None, "old"])),
        annotations=draw(st.sampled_from([{}, {names.ANNOTATION_OFFERED: "cpus=1"}])),
    )


@st.composite
def views(draw, nodeset):
    """One node in any state: there or not, with pods of this NodeSet, of another one, of others."""
    number = draw(st.integers(1, NODES))
    node = make_node(
        number,
        labels={"pool": draw(st.sampled_from(["gpu", "gpu", "other"]))},
        ready=draw(st.booleans()),
        unschedulable=draw(st.booleans()),
        annotations=draw(st.sampled_from([{}, {names.ANNOTATION_PLACED_ON: f"gpu-009-{number:03d}"}])),
    )
    own = draw(st.lists(pods_of(nodeset, number), max_size=2, unique_by=lambda pod: pod.uid))
    foreign = draw(st.lists(pods_of(OTHER, number), max_size=1))
    web = Pod(metadata=Meta(name="web", namespace="default"), spec=PodSpec(node_name=node.name))
    return NodeView(
        name=node.name,
        node=draw(st.sampled_from([node, node, None])),
        slurmd_pods=[*own, *foreign],
        occupants=[*own, *foreign, web],
        lasting_offers=frozenset(draw(st.sampled_from([[], [pod.uid for pod in own]]))),
    )


def sums(survey: Survey):
    """All that a decision may ask, so that equal sums mean equal decisions."""
    return {
        "nodes": survey.nodes,
        "possible": survey.possible,
        "pods": survey.pods,
        "counts": survey.counts,
        "exclusions": survey.exclusions,
        "staying": list(survey.staying),
        "outdated": list(survey.outdated),
        "free": list(survey.free),
        "taken": survey.taken_names,
        "reserved": survey.reserved_names,
        **{trait.name: dict(survey.those(trait)) for trait in (Trait.LEAVING, Trait.MARKED, Trait.STRANDED)},
    }


def told(survey: Survey):
    """What is done and said by these sums, in whatever order."""
    nodeset = survey.wanted.nodeset
    world = World(nodeset=nodeset, survey=survey, failures={"n1": 2}, now=NOW)
    plan = decide_nodeset(world)
    unordered = {"actions": sorted(plan.actions, key=str), "overdue": sorted(plan.overdue, key=str)}
    return msgspec.structs.replace(plan, **unordered), report(world, plan)


def courses():
    """A NodeSet, and then views of its nodes, one after the other."""
    return nodesets().flatmap(lambda nodeset: st.tuples(st.just(nodeset), st.lists(views(nodeset), max_size=10)))


@settings(max_examples=60)
@given(courses())
def test_after_any_course_of_events_the_sums_are_those_of_a_survey_made_anew(course):
    nodeset, events = course
    grown, now = Survey(Wanted.read(nodeset)), {}
    for view in events:
        grown.look(view)
        now[view.name] = view
        anew = make_survey(Wanted.read(nodeset), now.values())
        assert sums(grown) == sums(anew)
        assert told(grown) == told(anew)


@settings(max_examples=40)
@given(courses())
def test_what_has_come_and_gone_leaves_nothing(course):
    nodeset, events = course
    survey = Survey(Wanted.read(nodeset))
    for view in events:
        survey.look(view)
    for number in range(1, NODES + 1):
        survey.look(NodeView(name=f"n{number}"))
    assert sums(survey) == sums(Survey(Wanted.read(nodeset)))


def test_a_node_that_cannot_be_read_keeps_its_verdict():
    nodeset = make_nodeset(template=make_template(requests={"cpu": "1"}))
    survey = make_survey(Wanted.read(nodeset), [NodeView(name="n1", node=make_node(1))])
    with pytest.raises(BadQuantity):
        survey.look(NodeView(name="n1", node=make_node(1, allocatable={"cpu": "many"})))
    assert survey.possible == 1


def test_what_shapes_no_verdict_needs_no_new_survey():
    nodeset = make_nodeset()
    wanted = Wanted.read(nodeset)
    meta = msgspec.structs.replace(nodeset.metadata, resource_version="9", annotations={"a": "b"})
    assert wanted.is_still_of(msgspec.structs.replace(nodeset, metadata=meta))
    assert not wanted.is_still_of(make_nodeset(template=make_template(image="slurmd:2")))
    assert not wanted.is_still_of(make_nodeset(deleting=True))
    assert not wanted.is_still_of(make_nodeset(name="another"))


NUMBERS = range(1, NODES + 1)
MOVES = st.lists(
    st.tuples(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS), st.permutations(NUMBERS)), min_size=1, max_size=4
)


@settings(max_examples=60)
@given(MOVES)
def test_a_pod_may_be_seen_on_its_new_node_before_it_is_missed_on_the_old_one(moves):
    nodeset = make_nodeset(replicas=2)
    pods = {number: make_pod(nodeset, number, template_hash="old") for number in NUMBERS}
    places = dict(zip(NUMBERS, NUMBERS, strict=True))
    grown = Survey(Wanted.read(nodeset))
    for pod, to, order in [(1, 1, NUMBERS), *moves]:
        places[pod] = to
        views = {number: seen(number, [pods[each] for each in NUMBERS if places[each] == number]) for number in order}
        for view in views.values():
            grown.look(view)
            assert len(list(grown.staying)) <= NODES
        assert sums(grown) == sums(make_survey(Wanted.read(nodeset), views.values()))


def seen(number, pods):
    return NodeView(name=f"n{number}", node=make_node(number), slurmd_pods=pods, occupants=pods)
