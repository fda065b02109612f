"""Pods that declare their gang themselves."""

from __future__ import annotations

import pytest

from sunkpy.core import names
from sunkpy.core.gang.families import annotated
from sunkpy.core.gang.identity import parse_comment
from tests.unit.core.gang.families.makers import documents, job, jobs_of
from tests.unit.core.gang.families.workload import gang, pod, seats, too_many

GANG, SIZE, ROLES, ROLE = (
    names.ANNOTATION_GANG,
    names.ANNOTATION_GANG_SIZE,
    names.ANNOTATION_GANG_ROLES,
    names.ANNOTATION_GANG_ROLE,
)


def member(name, number=0, **annotations):
    annotations = {f"sunkpy.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return pod(name, annotations=annotations, creationTimestamp=f"2026-11-21T00:00:{number:02}Z")


def test_pods_of_one_name_and_namespace_are_a_gang():
    pods = [member(f"p-{n}", n, gang="solver", gang_size="3") for n in range(3)]
    made = gang(pods)
    assert seats(made) == {"pod": (3, 3, [("p-0", -1), ("p-1", -1), ("p-2", -1)])}
    assert (made.kind, made.is_complete, made.problems) == ("gang default/solver", True, ())
    assert made.final_because == "nothing makes a bare pod again"
    elsewhere = pod("q", annotations={GANG: "solver", SIZE: "3"}, namespace="other")
    assert len(jobs_of([*pods, elsewhere])) == 2


def test_it_waits_for_all():
    assert not gang([member("p-0", gang="solver", gang_size="2")]).is_complete


def test_pods_beyond_the_size_are_jobs_of_their_own():
    pods = [member(f"p-{n}", n, gang="solver", gang_size="2") for n in range(3)]
    gangs = jobs_of(pods)
    assert [(each.seats, each.id.unit) for each in gangs] == [(2, ""), (1, "extra-uid-of-p-2")]
    assert gangs[1].kind == "Pod default/p-2"


def test_roles_stand_in_the_order_in_which_they_are_written():
    said = {"gang": "solver", "gang_roles": "leader=1, worker=2"}
    pods = [member("a", 0, gang_role="worker", **said), member("b", 1, gang_role="leader", **said)]
    made = gang(pods)
    assert seats(made) == {"leader": (1, 1, [("b", -1)]), "worker": (2, 2, [("a", -1)])}
    assert not made.is_complete


def test_pods_that_one_owner_numbers_have_these_ranks():
    document = documents("native/job-indexed.yaml")["Job"]
    document["spec"] |= {"parallelism": 3, "completions": 3}
    document["spec"]["template"]["metadata"] = {"annotations": {GANG: "train", SIZE: "3"}}
    owners, pods = job(document, indices=(2, 0, 1))
    made = gang(pods, owners)
    assert seats(made)["pod"][2] == [("numbered-0-x", 0), ("numbered-1-x", 1), ("numbered-2-x", 2)]
    assert (made.final_because, made.expects_more) == ("", True)
    assert made.suspension is not None
    assert made.suspension.owner.name == "numbered"
    over = job(document, indices=(0,), conditions=[{"type": "Complete", "status": "True"}])
    assert not gang(over[1], over[0]).expects_more


def test_a_gang_in_which_a_bare_pod_is_does_not_come_back():
    owners, pods = job(documents("native/job.yaml")["Job"])
    pods = [member("a", gang="x", gang_size="2"), pod("b", owned_by=owners, annotations={GANG: "x", SIZE: "2"})]
    made = gang(pods, owners)
    assert (made.final_because, made.suspension) == ("nothing makes a bare pod again", None)


def test_a_name_may_be_any_text_and_two_texts_never_meet():
    ids = {annotated.FAMILY.identify(member("p", gang=name), ()) for name in ("a b", "a/b", "x" * 70, "x" * 71, "a-b")}
    assert len(ids) == 5
    assert {parse_comment(id.comment("text; $(rm)")) for id in ids} == ids
    assert annotated.FAMILY.identify(member("p", gang="  "), ()) is None


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({}, "gang-size: missing: write how many pods gang default/x has"),
        ({"gang_size": "0"}, "gang-size: 0 pods are no gang: at least 1"),
        ({"gang_size": "-3"}, "gang-size: '-3' is not a number of pods"),
        ({"gang_size": "three"}, "gang-size: 'three' is not a number of pods"),
        ({"gang_size": "2.5"}, "gang-size: '2.5' is not a number of pods"),
        ({"gang_size": "²"}, "gang-size: '²' is not a number of pods"),
        ({"gang_roles": "leader"}, "gang-roles: 'leader' is not a role: write name=count, as in leader=1,worker=4"),
        ({"gang_roles": "a=1,a=2"}, "gang-roles: role a is named twice"),
        ({"gang_roles": "a=1,b=x"}, "gang-roles: 'x' is not a number of pods"),
        (
            {"gang_roles": ",".join(f"r{number}=1" for number in range(65))},
            "gang-roles: it has 65 entries, and a gang at most 64: make several gangs",
        ),
        (
            {"gang_roles": "a=1,b=2", "gang_size": "4", "gang_role": "a"},
            "gang-size: is 4, but sunkpy.dev/gang-roles adds up to 3",
        ),
        ({"gang_roles": "a=1,b=2"}, "gang-role: pod p has no role: use one of a, b"),
        (
            {"gang_roles": "a=1,b=2", "gang_role": "c"},
            "gang-role: pod p has the role 'c', which is not declared: use one of a, b",
        ),
    ],
)
def test_a_broken_declaration_is_named_and_nothing_is_submitted(annotations, problem):
    made = gang([member("p", gang="x", **annotations)])
    (told,) = made.problems
    assert (str(told), told.fatal) == (f"annotation sunkpy.dev/{problem}", True)
    assert [each.name for each in made.members] == ["p"]


@pytest.mark.parametrize(
    ("annotations", "number"),
    [({"gang_size": "9" * 5000}, 9999999999), ({"gang_roles": "a=4096,b=1", "gang_role": "a"}, 4097)],
)
def test_more_pods_than_a_gang_can_have(annotations, number):
    made = gang([member("p", gang="x", **annotations)])
    assert (made.refused, made.seats) == (too_many("gang default/x", number), 1)


def test_pods_that_disagree():
    made = gang([member("a", gang="x", gang_size="2"), member("b", gang="x", gang_size="3")])
    (told,) = made.problems
    assert str(told) == "annotation sunkpy.dev/gang-size: pods of a gang must agree: a says '2', b says '3'"
    made = gang([member("a", gang="x", gang_size="2"), member("b", gang="x")])
    assert made.problems[0].text == "pods of a gang must agree: a says '2', b says 'nothing'"


def test_pods_that_end_have_no_say_in_it():
    ended = pod("a", annotations={GANG: "x", SIZE: "2"}, status={"phase": "Succeeded"})
    leaving = pod("b", annotations={GANG: "x", SIZE: "2"}, deletionTimestamp="2026-11-21T00:00:00Z")
    made = gang([ended, leaving, member("c", gang="x", gang_size="1")])
    assert (made.seats, made.problems) == (1, ())
