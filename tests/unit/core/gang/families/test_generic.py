"""Kinds that an admin describes in a table: made-up ones, in three shapes, and tables that cannot be used."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from sunkpy.core.gang import families
from sunkpy.core.gang.families.generic import read_table
from sunkpy.core.gang.gang import Link
from sunkpy.core.model.objects import Kind
from tests.unit.core.gang.families.makers import jobs_of, made_by
from tests.unit.core.gang.families.workload import gang, owner, pod, seats, too_many

KIND = {"group": "sim.example.com", "kind": "Solver"}
FARM = {"name": "farm", "ownerKind": KIND, "roles": [{"name": "worker", "countPath": "spec.replicas"}]}
SOLVER = {
    "name": "solver",
    "ownerKind": KIND,
    "unitBy": {"label": "sim.example.com/unit"},
    "roles": [
        {"name": "master", "label": {"key": "role", "value": "master"}, "countPath": "1"},
        {
            "name": "worker",
            "label": {"key": "role", "value": "worker"},
            "countPath": "spec.groups[name=worker].count",
            "minPath": "spec.groups[name=worker].least",
            "indexLabel": "rank",
        },
        {"name": "reader", "countPath": "spec.groups[1].count", "later": True},
    ],
}
TEAM = {
    "name": "team",
    "ownerKind": {"group": "", "kind": "Team"},
    "namedBy": {"annotation": "example.com/team"},
    "roles": [{"name": "pod", "countPath": "spec.size"}],
}


def known(*table):
    return families.configured(read_table(table), daemons_in=(), gpu_resources=())


def solver(spec, kind="Solver"):
    return owner({"apiVersion": "sim.example.com/v2", "kind": kind, "metadata": {"name": "s"}, "spec": spec})


def test_all_pods_below_an_owner_however_far():
    made = solver({"replicas": 3})
    between = made_by({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "s-job"}}, made)
    pods = [pod(f"p-{n}", owned_by=[between], creationTimestamp=f"2026-11-21T00:00:0{n}Z") for n in range(3)]
    found = gang(pods, [between, made], known=known(FARM | {"suspendPath": "spec.run.paused"}))
    assert seats(found) == {"worker": (3, 3, [("p-0", -1), ("p-1", -1), ("p-2", -1)])}
    assert (found.id.uid, found.kind) == ("uid-of-s", "Solver default/s")
    assert found.suspension is not None
    assert (found.suspension.owner, found.suspension.path) == (made, ("spec", "run", "paused"))


def member(name, made, unit, **labels):
    return pod(name, owned_by=[made], labels={"sim.example.com/unit": unit, **labels})


def test_units_of_an_owner_with_roles_ranks_a_minimum_and_a_later_wave():
    made = solver({"groups": [{"name": "worker", "count": 3, "least": 2}, {"name": "reader", "count": 4}]})
    pods = [
        *(member(f"w-{n}", made, "u1", role="worker", rank=str(n)) for n in (2, 1, 0)),
        member("m", made, "u1", role="master"),
        member("other", made, "u2", role="master"),
    ]
    first, extra, second = jobs_of(pods, [made], known=known(SOLVER))
    assert seats(first) == {
        "master": (1, 1, [("m", -1)]),
        "worker": (2, 2, [("w-0", 0), ("w-1", 1)]),
        "reader": (4, 0, []),
    }
    assert (first.id.unit, first.is_complete, first.kind) == ("u1", True, "Solver default/s (u1)")
    assert [each.name for each in extra.members] == ["w-2"]
    assert (second.id.unit, second.is_complete) == ("u2", False)


def test_pods_that_name_an_object_which_does_not_own_them():
    rules = known(TEAM)
    one = pod("a", annotations={"example.com/team": "red"})
    team = owner({"apiVersion": "v1", "kind": "Team", "metadata": {"name": "red"}, "spec": {"size": 2}})
    assert rules[2].refers(one) == (Link(kind=Kind(group="", kind="Team"), namespace="default", name="red"),)
    assert rules[2].reads == (Kind(group="", kind="Team"),)
    found = gang([one], [team], known=rules)
    assert (found.seats, found.is_complete, found.kind) == (2, False, "Team default/red")
    missing = gang([one], known=rules)
    assert missing.refused == "Team default/red, named by annotation example.com/team, does not exist"
    assert missing.id == found.id


def test_pods_of_others_are_not_taken():
    rules = known(FARM, SOLVER, TEAM)
    assert gang([pod("a")], known=rules).kind == "Pod default/a"
    made = solver({"replicas": 1})
    without_unit = gang([pod("a", owned_by=[made])], [made], known=known(SOLVER))
    assert (without_unit.kind, without_unit.seats) == ("Solver default/s, pod a", 1)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, "there is no spec.replicas, which counts role worker"),
        ({"replicas": None}, "there is no spec.replicas, which counts role worker"),
        ({"replicas": "3"}, "spec.replicas, which counts role worker, is '3', not a number of pods"),
        ({"replicas": True}, "spec.replicas, which counts role worker, is 'True', not a number of pods"),
        ({"replicas": 1.5}, "spec.replicas, which counts role worker, is '1.5', not a number of pods"),
        ({"replicas": -1}, "spec.replicas, which counts role worker, is '-1', not a number of pods"),
        ({"replicas": 0}, "0 pods are no gang: at least 1"),
    ],
)
def test_an_owner_without_a_usable_size_is_refused(spec, why):
    made = solver(spec)
    found = gang([pod("p", owned_by=[made])], [made], known=known(FARM))
    assert (found.refused, len(found.members)) == (f"Solver default/s: {why}", 1)


def test_an_owner_of_too_many_is_refused():
    made = solver({"replicas": 10**12})
    found = gang([pod("p", owned_by=[made])], [made], known=known(FARM))
    assert found.refused == too_many("Solver default/s", 10**12)


def test_a_rank_that_is_none():
    made = solver({"groups": [{"name": "worker", "count": 3, "least": 2}, {"count": 0}]})
    found = gang([member("w", made, "u", role="worker", rank="x")], [made], known=known(SOLVER))
    assert found.refused == "Solver default/s (u): label rank of pod w is 'x', not a number"


def test_a_pod_without_any_of_the_roles():
    made = solver({"replicas": 1})
    rule = FARM | {"roles": [SOLVER["roles"][0]]}
    found = gang([pod("p", owned_by=[made])], [made], known=known(rule))
    assert found.refused == "Solver default/s: pod p has none of the roles master"


def with_role(**fields):
    return FARM | {"roles": [FARM["roles"][0] | fields]}


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({}, "Object missing required field `name` - at `$[0]`"),
        (FARM | {"rolez": []}, "Object contains unknown field `rolez` - at `$[0]`"),
        (FARM | {"name": "Farm 1"}, "name 'Farm 1': lower-case letters, digits and dashes only - at `$[0]`"),
        (FARM | {"ownerKind": {"group": "a"}}, "Object missing required field `kind` - at `$[0].ownerKind`"),
        (FARM | {"roles": []}, "workload farm: roles must name at least one - at `$[0]`"),
        (FARM | {"roles": FARM["roles"] * 2}, "workload farm: a role is named twice: worker - at `$[0]`"),
        (
            FARM | {"roles": [*FARM["roles"], SOLVER["roles"][0]]},
            "workload farm: role worker needs a label; only the last may lack it - at `$[0]`",
        ),
        (with_role(later=True), "workload farm: one role at least must not be later - at `$[0]`"),
        (FARM | {"unitBy": {}}, "write either label or annotation - at `$[0].unitBy`"),
        (
            FARM | {"unitBy": {"label": "a"}, "namedBy": {"label": "b"}},
            "workload farm: write either unitBy or namedBy - at `$[0]`",
        ),
        (
            FARM | {"suspendPath": "spec..x"},
            "workload farm: suspendPath 'spec..x' is no path such as spec.suspend - at `$[0]`",
        ),
        (with_role(countPath=3), "Expected `str`, got `int` - at `$[0].roles[0].countPath`"),
        (
            with_role(indexLabel="a", indexAnnotation="b"),
            "role worker: write either indexLabel or indexAnnotation - at `$[0].roles[0]`",
        ),
        *(
            (
                with_role(countPath=path),
                f"{path!r} is no path such as spec.replicas or spec.groups[name=worker].count, nor a number"
                " - at `$[0].roles[0]`",
            )
            for path in ("", "replicas", "metadata.name", "spec", "spec.a[", "spec.a[x]", "spec.$(x)", "-1", "123456")
        ),
    ],
)
def test_a_table_that_cannot_be_used_says_why(record, why):
    with pytest.raises(msgspec.ValidationError) as error:
        read_table([record])
    assert str(error.value) == why


def test_the_example_of_the_manual_is_valid():
    example = Path(__file__).resolve().parents[5] / "docs" / "examples" / "own-kind.yaml"
    (rule,) = read_table(yaml.safe_load(example.read_text())["scheduler"]["workloads"])
    assert [role.name for role in rule.roles] == ["master", "worker"]


def test_two_entries_of_one_name():
    with pytest.raises(ValueError, match="two workloads have the name farm"):
        read_table([FARM, FARM])
