"""The place of one node by its labels, and why it has none."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sunkpy.core.topology.places import (
    BLOCK,
    TREE,
    Place,
    is_ours,
    path_told,
    place_of,
    place_of_slinky,
    problem_told,
    switch_names,
    tell,
    topology_str_of,
)
from sunkpy.core.topology.sources import SOURCES, known

TIER = "fabric.topograph.run/tier-"
LAYER = "topology.k8s.aws/network-node-layer-"
NONE = "no label of a known source"

VALUES = st.sampled_from(["a", "b", "all", "unknown", "a.b", "nn-0f6a", "_x", "L" * 63, "b" * 62 + "1"])
KEYS = sorted({key for source in SOURCES for key in source.keys})
LABELS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8)


@pytest.mark.parametrize(
    ("labels", "leaf", "problem"),
    [
        ({f"{TIER}0": "l1"}, "l1", ""),
        ({f"{TIER}1": "s1", f"{TIER}0": "l1"}, "s1/l1", ""),
        ({f"{TIER}1": "s1"}, "", f"no label {TIER}0"),
        ({f"{TIER}2": "c1", f"{TIER}0": "l1"}, "", f"no label {TIER}1"),
        ({f"{TIER}1": "s1", f"{TIER}0": ""}, "", f"no label {TIER}0"),
        ({f"{LAYER}1": "a", f"{LAYER}2": "b", f"{LAYER}3": "c"}, "a/b/c/-", ""),
        ({f"{LAYER}1": "a", f"{LAYER}2": "b", f"{LAYER}3": "c", f"{LAYER}4": "d"}, "a/b/c/d", ""),
        ({f"{LAYER}1": "a", f"{LAYER}3": "c"}, "", f"no label {LAYER}2"),
        ({"kubernetes.io/hostname": "n1"}, "", NONE),
        ({}, "", NONE),
    ],
)
def test_a_gap_is_no_place_and_says_which_label_is_missing(labels, leaf, problem):
    place = place_of(labels, known("auto"))
    assert (place.leaf, place.problem) == (leaf, problem)


def test_who_has_no_block_where_one_is_wanted_is_told_and_keeps_its_switches():
    place = place_of({f"{TIER}0": "l1"}, known("topograph"), wants_block=True)
    says = "no label accelerator.topograph.run/domain or nvidia.com/gpu.clique that names its block"
    assert (place.leaf, place.block, place.problem) == ("l1", "", says)


def test_switches_that_have_some_below_end_in_a_slash_and_a_leaf_does_not():
    assert switch_names(("core", "spine", "leaf")) == ("core/", "core/spine/", "core/spine/leaf")
    assert switch_names(("all",)) == ("all-",)
    assert switch_names(()) == ()


def test_of_a_long_name_what_is_above_becomes_a_hash_so_that_leaves_of_a_switch_stay_together():
    island, block = "a" * 32, "b" * 32  # GKE's: together one more than Slurm 24.11 takes
    assert switch_names((island, block)) == (island + "/", f"3ba3f5f43b92/{block}")
    spine, leaf = switch_names(("s" * 63, "l" * 63))
    assert (spine, leaf) == ("s" * 63 + "/", "60ed9b7a6df8/05ccf5286761-" + "l" * 32)
    assert switch_names(("x" * 70,)) == ("c71bd109227e-" + "x" * 32,)


@pytest.mark.parametrize("length", range(48, 64))
def test_no_name_of_a_leaf_is_longer_than_slurm_takes(length):
    _, leaf = switch_names(("s" * 63, "l" * length))
    assert len(leaf) <= 63


@pytest.mark.parametrize(
    ("place", "plugins", "spec"),
    [
        (Place(switches=switch_names(("s1", "l1")), block="b1"), [TREE], "tree:all:s1/:s1/l1"),
        (Place(switches=switch_names(("s1", "l1")), block="b1"), [TREE, BLOCK], "tree:all:s1/:s1/l1,block:b1"),
        (Place(switches=switch_names(("l1",))), [BLOCK], ""),
        (Place(problem=NONE), [TREE], "tree:all:unknown"),
        (Place(problem=NONE), [], ""),
        (place_of_slinky("topo-switch:s2,topo-block:b2"), [TREE], "topo-switch:s2,topo-block:b2"),
    ],
)
def test_slurm_is_told_the_whole_path_for_it_makes_what_is_missing(place, plugins, spec):
    assert topology_str_of(place, plugins) == spec


@pytest.mark.parametrize(
    ("place", "record", "spec", "told"),
    [
        (Place(problem=NONE), "tree:all:s1/:s1/l1,block:b1", "tree:all:s1/:s1/l1,block:b1", f"s1/l1 ({NONE})"),
        (
            Place(switches=switch_names(("l2",)), problem="no b"),
            "tree:all:l1,block:b1",
            "tree:all:l2,block:b1",
            "l2 (no b)",
        ),
        (Place(switches=switch_names(("l2",)), block="b2"), "tree:all:l1,block:b1", "tree:all:l2,block:b2", "l2"),
        (Place(problem=NONE), "", "tree:all:unknown", f"unknown ({NONE})"),
        (Place(problem=NONE), "fabric:s1", "tree:all:unknown", f"unknown ({NONE})"),
    ],
)
def test_what_is_not_known_stays_as_slurm_has_it_and_is_told(place, record, spec, told):
    assert topology_str_of(place, [TREE, BLOCK], record) == spec
    assert tell(place, spec) == told


@pytest.mark.parametrize(
    ("told", "path"),
    [
        ("s1/l1", ("s1", "l1")),
        ("s1/l1 (no label x)", ("s1", "l1")),
        ("(no label x)", ()),
        ("unknown (no label x)", ()),
        ("topo-switch:s2", ("topo-switch:s2",)),
        ("", ()),
    ],
)
def test_what_is_told_of_a_place_can_be_read_again(told, path):
    assert path_told(told) == path
    assert problem_told(told) == ("no label x" if "no label x" in told else "")
    assert path_told(tell(Place(problem="no label x"), "")) == ()


@pytest.mark.parametrize(
    ("record", "ours"),
    [("tree:all:l1", True), ("tree:all:l1,block:b1", True), ("", False), ("default:s0", False), ("tree:a,x:b", False)],
)
def test_a_record_is_ours_if_all_that_it_names_is(record, ours):
    assert is_ours(record) is ours


@pytest.mark.parametrize("spec", ["s2", "topo:", "topo:a b", "topo:s[1-2]", "topo:s1,"])
def test_an_annotation_that_slurm_would_not_take_is_told(spec):
    says = f"annotation topology.slinky.slurm.net/spec is not NAME:unit,NAME:unit: {spec!r}"
    assert place_of_slinky(spec) == Place(problem=says)


@given(LABELS, LABELS)
def test_no_leaf_has_the_name_of_a_switch_with_switches(one, other):
    places = [place_of(labels, known("auto")) for labels in (one, other)]
    leaves = {place.leaf for place in places if place.leaf}
    inner = {switch for place in places for switch in place.switches[:-1]} | {"all"}
    assert not leaves & inner


@given(LABELS, st.data())
def test_the_order_of_labels_does_not_matter_nor_do_labels_of_others(labels, data):
    shuffled = dict(data.draw(st.permutations(sorted(labels.items()))))
    assert place_of(labels, known("auto")) == place_of(shuffled | {"app": "x"}, known("auto"))


@given(LABELS)
def test_slurm_can_read_what_it_is_told(labels):
    place = place_of(labels, known("auto"))
    for name in (*place.switches, place.block):
        assert len(name) <= 64
        assert not set(name) & set(" ,:[]=#\"'")
    assert bool(place.switches) != bool(place.problem)
