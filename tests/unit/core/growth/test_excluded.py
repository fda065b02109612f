"""The nodes that jobs exclude: what is kept of them."""

from __future__ import annotations

import gc

from sunkpy.core.growth.excluded import MOST, NONE, TOO_MANY, Excluded, share


def test_names_are_those_of_the_text_and_one_that_cannot_be_read_is_no_node():
    assert share("n[1-2],a").nodes == {"n1", "n2", "a"}
    assert share("n[1-").nodes == {"n[1-"}
    assert (share(""), share("").nodes) == (NONE, frozenset())


def test_a_text_that_names_all_nodes_many_times_is_not_spelled_out():
    text = ",".join(["n[1-65535]"] * 3)
    assert share(text).nodes == {text}
    assert len(share("n[1-65535],n[1-65535]").nodes) == 65535


def test_equal_lists_are_one_and_names_are_kept_once():
    one, other = share("n[1-5000]"), share("".join(["n[1", "-5000]"]))
    assert one is other
    assert one.nodes is other.nodes
    longer = {name: name for name in share("n[1-5001]").nodes}
    assert all(longer[name] is name for name in one.nodes)


def test_a_new_list_is_not_kept_while_there_are_too_many_and_is_once_they_have_gone():
    gc.collect()
    kept = [share(f"m[1-{n}]") for n in range(2, MOST + 2)]
    assert all(each.is_kept for each in kept)
    assert share("m[1-9999]") is TOO_MANY
    assert share("m[1-2]") is kept[0]
    assert share("m9") == Excluded("m9")
    kept.clear()
    assert share("m[1-9999]").is_kept
