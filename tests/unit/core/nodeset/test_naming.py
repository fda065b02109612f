from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.nodeset.naming import assign_names, host_name
from tests.unit.core.nodeset.build import make_node, make_nodeset


def test_two_octets_name_a_node():
    node = make_node(1, ip="10.174.12.2")
    assert assign_names(make_nodeset(), [node], taken=[]) == {"n1": "gpu-012-002"}


def test_the_later_of_two_nodes_takes_more_octets():
    old = make_node(1, ip="10.1.12.2", created="2026-01-01T00:00:00Z")
    new = make_node(2, ip="10.2.12.2", created="2026-01-02T00:00:00Z")
    named = assign_names(make_nodeset(), [new, old], taken=[])
    assert named == {"n1": "gpu-012-002", "n2": "gpu-002-012-002"}


def test_names_of_others_are_avoided():
    node = make_node(1, ip="10.174.12.2")
    named = assign_names(make_nodeset(), [node], taken=["gpu-012-002"])
    assert named == {"n1": "gpu-174-012-002"}


def test_the_name_that_another_node_had_is_kept_for_it():
    node = make_node(1, ip="10.174.12.2")
    named = assign_names(make_nodeset(), [node], taken=[], reserved=["gpu-012-002"])
    assert named == {"n1": "gpu-174-012-002"}
    back = make_node(2, annotations={names.ANNOTATION_PLACED_ON: "gpu-012-002"})
    assert assign_names(make_nodeset(), [back], taken=[], reserved=["gpu-012-002"]) == {"n2": "gpu-012-002"}


def test_a_name_is_remembered_on_the_node_until_the_prefix_changes():
    node = make_node(2, annotations={names.ANNOTATION_PLACED_ON: "gpu-002-012-002"})
    assert assign_names(make_nodeset(), [node], taken=[]) == {"n2": "gpu-002-012-002"}
    assert assign_names(make_nodeset(prefix="h100"), [node], taken=[]) == {"n2": "h100-012-002"}


def test_naming_by_node_name_and_nodes_without_ipv4():
    assert assign_names(make_nodeset(naming="NodeName"), [make_node(1)], taken=[]) == {"n1": "gpu-n1"}
    assert assign_names(make_nodeset(), [make_node(1, ip="fd00::1")], taken=[]) == {"n1": "gpu-n1"}


@given(st.text(min_size=1), st.text(min_size=1))
def test_host_names_are_dns_labels(prefix, part):
    name = host_name(f"a{prefix}", f"{part}z")
    assert len(name) <= 63
    assert not name.startswith("-")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12))
def test_no_name_is_given_twice(octets):
    nodes = [make_node(i, ip=f"10.{a}.12.{b}") for i, (a, b) in enumerate(octets)]
    named = assign_names(make_nodeset(), nodes, taken=[])
    assert len(set(named.values())) == len(nodes)
