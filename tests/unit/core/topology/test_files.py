"""topology.conf and topology.yaml: written, read, and on none of ours does slurmctld end."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from sunkpy.core.topology.files import (
    BadTopology,
    nodes_in,
    path_in,
    paths_in,
    place_in,
    read,
    with_digest,
    write_conf,
    write_yaml,
)
from sunkpy.core.topology.places import Place, place_of, switch_names
from sunkpy.core.topology.sources import known
from tests.unit.core.topology.test_places import LABELS

TOPOGRAPH = """\
SwitchName=sw1 Switches=sw[2-3]
SwitchName=sw2 Nodes=node[1-4]
SwitchName=sw3 Nodes=node[5-8]
"""
"""As topograph's slinky engine writes it into a ConfigMap (docs/engines/slinky.md)."""
BLOCKS = """\
# block01=cube-7
BlockName=block01 Nodes=node[1-2]
BlockName=block02 Nodes=node[3-4]
BlockSizes=2
"""
YAML = """\
- topology: topo-tree
  cluster_default: true
  tree:
    switches:
      - {switch: core, children: "leaf[1-2]"}
      - {switch: leaf1, nodes: "node[1-2]"}
      - {switch: leaf2, nodes: node3}
- topology: topo-block
  cluster_default: false
  block:
    block_sizes: [2]
    blocks:
      - {block: b1, nodes: "node[1-2]"}
- topology: flat
  flat: true
"""
PLACES = {
    "gpu-001": Place(switches=switch_names(("sp1", "l1"))),
    "gpu-002": Place(switches=switch_names(("sp1", "l1"))),
    "gpu-003": Place(switches=switch_names(("sp1", "l2"))),
    "gpu-004": Place(switches=switch_names(("sp2", "row", "l1"))),
    "gpu-005": Place(problem="no label of a known source"),
}


def test_the_tree_of_24_11_names_its_nodes_and_who_has_no_place_is_below_the_root():
    assert write_conf(PLACES, records=["gpu-001 a"]) == (
        "# Made by sunkpy of what Nodes say.\n"
        "SwitchName=sp1/l1 Nodes=gpu-[001-002]\n"
        "SwitchName=sp1/l2 Nodes=gpu-003\n"
        "SwitchName=sp2/row/l1 Nodes=gpu-004\n"
        "SwitchName=unknown Nodes=gpu-005\n"
        "SwitchName=all Switches=sp1/,sp2/,unknown\n"
        "SwitchName=sp1/ Switches=sp1/l1,sp1/l2\n"
        "SwitchName=sp2/ Switches=sp2/row/\n"
        "SwitchName=sp2/row/ Switches=sp2/row/l1\n"
        "# records: 053d910ed87e\n"
    )


def test_another_record_of_a_node_makes_another_file_and_another_order_does_not():
    file = with_digest(TOPOGRAPH, ["a 1", "b 1"])
    assert file == with_digest(TOPOGRAPH, ["b 1", "a 1"])
    assert file != with_digest(TOPOGRAPH, ["a 2", "b 1"])
    assert with_digest(file, []).startswith(TOPOGRAPH)


def test_a_file_without_nodes_is_a_comment():
    assert set(write_conf({}, records=[]).split("\n", 1)[0]) >= {"#"}
    assert "SwitchName" not in write_conf({}, records=[])


def test_26_05_gets_the_root_and_all_blocks_of_which_there_is_always_one():
    assert write_yaml(["tree"], ["b1"], [4]) == (
        "# Made by sunkpy of what Nodes say.\n"
        "- topology: tree\n"
        "  cluster_default: true\n"
        "  tree:\n"
        "    switches:\n"
        "      - switch: all\n"
    )
    assert write_yaml(["block", "tree"], ["b2", "b1"], [4, 8]) == (
        "# Made by sunkpy of what Nodes say.\n"
        "- topology: block\n"
        "  cluster_default: true\n"
        "  block:\n"
        "    block_sizes: [4, 8]\n"
        "    blocks:\n"
        '      - block: "b1"\n'
        '      - block: "b2"\n'
        "- topology: tree\n"
        "  cluster_default: false\n"
        "  tree:\n"
        "    switches:\n"
        "      - switch: all\n"
    )
    assert '- block: "none"' in write_yaml(["block"], [], [4])


def test_26_05_gets_the_nodes_of_a_large_cluster_too():
    paths = {node: ("all", *(place.switches or ("unknown",))) for node, place in PLACES.items()}
    text = write_yaml(["tree", "block"], ["b1"], [4], paths=paths)
    assert text.partition("- topology: block\n")[0] == (
        "# Made by sunkpy of what Nodes say.\n"
        "- topology: tree\n"
        "  cluster_default: true\n"
        "  tree:\n"
        "    switches:\n"
        '      - {switch: "all", children: "sp1/,sp2/,unknown"}\n'
        '      - {switch: "sp1/", children: "sp1/l1,sp1/l2"}\n'
        '      - {switch: "sp2/", children: "sp2/row/"}\n'
        '      - {switch: "sp2/row/", children: "sp2/row/l1"}\n'
        '      - {switch: "sp1/l1", nodes: "gpu-[001-002]"}\n'
        '      - {switch: "sp1/l2", nodes: "gpu-003"}\n'
        '      - {switch: "sp2/row/l1", nodes: "gpu-004"}\n'
        '      - {switch: "unknown", nodes: "gpu-005"}\n'
    )
    assert paths_in(read("topology.yaml", text)) == paths
    assert paths_in(read("topology.yaml", write_yaml(["tree"], [], []))) == {}


def test_the_file_of_topograph_becomes_places_whose_names_carry_their_path():
    layouts = read("topology.conf", TOPOGRAPH)
    assert place_in(layouts, "node3").switches == ("sw1/", "sw1/sw2")
    assert place_in(layouts, "node8").switches == ("sw1/", "sw1/sw3")
    assert place_in(layouts, "node9") == Place(problem="not in the topology file")
    assert place_in(read("topology.conf", BLOCKS), "node4").block == "block02"
    layouts = read("topology.yaml", YAML)
    assert place_in(layouts, "node2") == Place(levels=("core", "leaf1"), switches=("core/", "core/leaf1"), block="b1")


def test_of_a_file_that_slurm_reads_itself_the_names_are_kept():
    layouts = read("topology.yaml", YAML)
    assert path_in(layouts, "node3") == ("core", "leaf2")
    assert path_in(layouts, "node9") == ()
    assert nodes_in(read("topology.conf", BLOCKS)) == {"node1", "node2", "node3", "node4"}


def test_words_and_comments_are_read_as_slurm_does():
    text = (
        "switchname=leaf nodes=n[1-2] linkspeed=100 # one\nSWITCHNAME=top \\\nswitches=leaf\n# SwitchName=x Nodes=n9\n"
    )
    assert path_in(read("topology.conf", text), "n2") == ("top", "leaf")
    text = "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n"
    assert path_in(read("topology.conf", text), "n1") == ("a",)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("topology.conf", "SwitchName=a Nodes=n[1-", "topology.conf: hostlist 'n[1-': its brackets do not match"),
        ("topology.conf", "SwitchName=a Nodes=n1 Switches=a", "switch a is below itself"),
        ("topology.yaml", "- {tree: {}}", "topology.yaml: Object missing required field `topology` - at `$[0]`"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(name, text, says):
    with pytest.raises(BadTopology) as told:
        read(name, text)
    assert str(told.value) == says


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from([f"n{number}" for number in range(20)]), LABELS, max_size=8), LABELS)
def test_a_broken_label_of_one_node_changes_no_other_and_no_file_of_ours_ends_slurmctld(labels, broken):
    places = {node: place_of(found, known("auto")) for node, found in labels.items()}
    for text in (write_conf(places, records=[]), write_conf(dict(reversed(places.items())), records=[])):
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        names = [line.split()[0] for line in lines]
        below = [line.partition(" Switches=")[2] for line in lines if " Switches=" in line]
        children = [child for text in below for child in text.split(",")]
        assert len(set(names)) == len(names)
        assert sorted(f"SwitchName={child}" for child in children) == sorted(set(names) - {"SwitchName=all"})
        layouts = read("topology.conf", text)
        for node, place in places.items():
            assert path_in(layouts, node) == ("all", *(place.switches or ("unknown",)))
    if places:
        node, *others = places
        changed = places | {node: place_of(broken, known("auto"))}
        before, now = (read("topology.conf", write_conf(each, records=[])) for each in (places, changed))
        assert [path_in(before, other) for other in others] == [path_in(now, other) for other in others]
