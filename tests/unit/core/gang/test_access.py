import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.gang.access import Rule, restricted, rule_for
from tests.unit.core.gang.pods import make_gang

CHEMISTS = Rule(namespaces=("chem",), partitions=("low", "gpu"), accounts=("chem",), qos=("*",))
ANYBODY = Rule(namespaces=("*",), partitions=("*",))
LABELLED = Rule(namespace_labels={"team": "ml"}, reservations=("night",))


def ask(rule, default_partition="low", **annotations):
    gang = make_gang(annotations={f"sunkpy.dev/{name}": value for name, value in annotations.items()})
    return restricted(gang, rule, default_partition=default_partition)


@pytest.mark.parametrize(
    ("namespace", "labels", "rule"),
    [
        ("chem", {}, CHEMISTS),
        ("lab", {"team": "ml", "x": "y"}, LABELLED),
        ("lab", {"team": "chem"}, ANYBODY),
        ("lab", {}, ANYBODY),
    ],
)
def test_the_first_rule_that_covers_a_namespace_holds(namespace, labels, rule):
    assert rule_for((CHEMISTS, LABELLED, ANYBODY), namespace, labels) == rule


def test_a_rule_without_a_namespace_covers_nobody():
    assert rule_for((Rule(partitions=("high",)),), "chem", {"team": "ml"}) == Rule()


def test_nobody_gets_more_than_the_default_partition_unasked():
    gang = ask(rule_for((), "default", {}))
    assert (gang.options.partition, gang.problems) == ("low", ())
    assert ask(Rule(), partition="low").problems == ()
    (problem,) = ask(Rule(), partition="high").problems
    assert problem.fatal
    assert str(problem) == (
        "annotation sunkpy.dev/partition: namespace default may not use partition high: it may use low; "
        "an administrator opens it in scheduler.access of the Slurm cluster"
    )


@pytest.mark.parametrize("kind", ["account", "qos", "reservation"])
def test_what_is_not_opened_is_refused_by_name(kind):
    (problem,) = ask(Rule(), **{kind: "x"}).problems
    assert f"namespace default may not use {kind} x: it may name none" in str(problem)


def test_a_pod_that_names_nothing_gets_the_first_that_is_allowed():
    options = ask(CHEMISTS, default_partition="other").options
    assert (options.partition, options.account, options.qos, options.reservation) == ("low", "chem", "", "")
    assert ask(LABELLED).options.reservation == ""


def test_of_several_partitions_each_must_be_allowed():
    assert ask(CHEMISTS, partition="low,gpu").problems == ()
    (problem,) = ask(CHEMISTS, partition="low,high").problems
    assert "may not use partition high: it may use low, gpu" in str(problem)


def test_a_star_opens_a_kind():
    assert ask(CHEMISTS, qos="anything").problems == ()
    assert ask(ANYBODY, partition="any").problems == ()
    assert ask(ANYBODY, default_partition="").options.partition == ""


NAMES = st.sampled_from(["a", "b", "c"])


@given(st.lists(NAMES, max_size=2), NAMES, st.sampled_from(["partition", "account", "qos", "reservation"]))
def test_nothing_is_submitted_that_the_map_does_not_allow(allowed, asked, kind):
    field = {"qos": "qos"}.get(kind, f"{kind}s")
    gang = ask(Rule(**{field: tuple(allowed)}), default_partition="", **{kind: asked})
    assert any(problem.fatal for problem in gang.problems) == (asked not in allowed)
