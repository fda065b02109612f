import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.model import matching
from sunkpy.core.model.objects import (
    Container,
    NodeSelectorTerm,
    PodSpec,
    Resources,
    SelectorRequirement,
    Taint,
    Toleration,
)
from tests.unit.core.gang.pods import make_node, make_pod

NODE = make_node("node1", labels={"zone": "a", "gpus": "8"})


@pytest.mark.parametrize(
    ("operator", "key", "values", "matches"),
    [
        ("In", "zone", ("a", "b"), True),
        ("In", "missing", ("a",), False),
        ("NotIn", "zone", ("b",), True),
        ("NotIn", "missing", ("a",), True),
        ("Exists", "zone", (), True),
        ("DoesNotExist", "zone", (), False),
        ("DoesNotExist", "missing", (), True),
        ("Gt", "gpus", ("4",), True),
        ("Gt", "gpus", ("8",), False),
        ("Lt", "gpus", ("9",), True),
        ("Lt", "zone", ("9",), False),
        ("Gt", "missing", ("0",), False),
        ("Gt", "gpus", (), False),
        ("Like", "zone", ("a",), False),
    ],
)
def test_selector_lines_match_as_in_kubernetes(operator, key, values, matches):
    line = SelectorRequirement(key=key, operator=operator, values=values)
    assert matching.matches_requirement(NODE.labels, line) == matches


def test_a_term_matches_the_name_by_match_fields_and_an_empty_one_nothing():
    line = SelectorRequirement(key="metadata.name", operator="In", values=("node1",))
    assert matching.matches_term(NODE, NodeSelectorTerm(match_fields=(line,)))
    assert not matching.matches_term(make_node("node2"), NodeSelectorTerm(match_fields=(line,)))
    assert not matching.matches_term(NODE, NodeSelectorTerm())


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", value="w"), False),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="k", value="v", effect="NoExecute"), False),
        (Toleration(key="k", value="v", effect="NoSchedule"), True),
        (Toleration(value="v"), False),
    ],
)
def test_tolerations_cover_taints_as_in_kubernetes(toleration, covers):
    assert matching.tolerates(toleration, Taint(key="k", value="v", effect="NoSchedule")) == covers


def asking(restart=None, **requests):
    return Container(resources=Resources(requests=requests), restart_policy=restart)


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        (PodSpec(containers=(asking(cpu="1"), asking(cpu="500m"))), 1500),
        (PodSpec(containers=(asking(cpu="1"),), init_containers=(asking(cpu="2"),)), 2000),
        (PodSpec(containers=(asking(cpu="1"),), init_containers=(asking("Always", cpu="1"), asking(cpu="2"))), 3000),
        (PodSpec(containers=(asking(cpu="1"),), init_containers=(asking(cpu="2"), asking("Always", cpu="1"))), 2000),
        (PodSpec(containers=(asking(cpu="1"),), overhead={"cpu": "100m"}), 1100),
        (PodSpec(containers=(asking(cpu="1"),), resources=Resources(requests={"cpu": "4"})), 4000),
        (PodSpec(containers=(Container(resources=Resources(limits={"cpu": "2"})),)), 2000),
        (PodSpec(containers=(asking(),)), 0),
    ],
)
def test_pod_requests_are_what_the_kubelet_counts(spec, cpu):
    assert matching.pod_requests(spec).get("cpu", 0) == cpu


def test_hugepages_of_the_pod_replace_those_of_its_containers():
    pages = {"hugepages-2Mi": "4Mi"}
    spec = PodSpec(containers=(asking(**pages),), resources=Resources(requests={"hugepages-2Mi": "6Mi"}))
    assert matching.pod_requests(spec)["hugepages-2Mi"] == 6 * 2**20


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), st.integers(0, 100))


@given(AMOUNTS, AMOUNTS)
def test_taking_and_giving_back_leaves_what_was_there(left, right):
    back = matching.added(matching.subtracted(left, right), right)
    assert {k: v for k, v in back.items() if v} == {k: v for k, v in left.items() if v}


@given(AMOUNTS, AMOUNTS)
def test_nothing_is_lacking_exactly_when_the_rest_is_not_negative(needs, free):
    rest = matching.subtracted(free, needs)
    assert (not matching.shortfalls(needs, free)) == all(rest[name] >= 0 for name in needs if needs[name])


def test_finished_pods_take_nothing_and_every_pod_takes_a_place():
    pods = [make_pod("a", requests={"cpu": "1"}), make_pod("b", requests={"cpu": "1"}, phase="Failed")]
    free = matching.free_allocatable(make_node(cpu="4"), pods)
    assert (free["cpu"], free["pods"]) == (3000, 109)


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [("cpu", 1500, "1500m"), ("cpu", 2000, "2"), ("memory", 2**30, "1Gi"), ("memory", 5 * 2**20, "5Mi"), ("x", 3, "3")],
)
def test_amounts_read_as_people_write_them(resource, amount, text):
    assert matching.show(resource, amount) == text
