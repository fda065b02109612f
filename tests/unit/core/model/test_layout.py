import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.model.layout import JobShare, grouped, lay_out, spread

SHARES = st.lists(st.builds(JobShare, cpus=st.integers(0, 64), gres=st.integers(0, 8)), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("cpus", "gres", "task", "expected"),
    [
        ((2, 2, 1), (0, 0, 0), JobShare(cpus=1), (2, 2, 1)),
        ((4, 4, 2), (0, 0, 0), JobShare(cpus=2), (2, 2, 1)),
        ((64, 64, 64), (2, 2, 1), JobShare(cpus=1, gres=1), (2, 2, 1)),  # whole nodes: the devices tell
        ((64, 64, 64), (0, 0, 0), JobShare(cpus=1), (2, 2, 1)),  # whole nodes: evenly
    ],
)
def test_tasks_lie_where_their_share_is(cpus, gres, task, expected):
    shares = [JobShare(node=f"n{number}", cpus=c, gres=g) for number, (c, g) in enumerate(zip(cpus, gres, strict=True))]
    assert lay_out(shares, tasks=5, task=task) == tuple((f"n{n}", count) for n, count in enumerate(expected))


@given(SHARES, st.integers(1, 20))
def test_no_node_is_without_a_task_and_none_has_more_than_fit(shares, tasks):
    layout = lay_out(shares, tasks=tasks, task=JobShare(cpus=2, gres=1))
    assert all(count >= 1 for _, count in layout)
    assert all(count == 1 or count <= min(s.cpus // 2, s.gres) for s, (_, count) in zip(shares, layout, strict=True))


def test_without_shares_the_tasks_are_spread():
    assert spread(("b", "a", "c"), 5) == (("b", 2), ("a", 2), ("c", 1))
    assert spread((), 5) == ()


@given(SHARES, st.integers(1, 20))
def test_all_tasks_lie_somewhere_where_there_is_room_and_evenly_where_there_is_more(shares, tasks):
    task = JobShare(cpus=2, gres=1)
    most = [min(share.cpus // 2, share.gres) for share in shares]
    counts = [count for _, count in lay_out(shares, tasks=tasks, task=task)]
    if all(most) and len(shares) <= tasks <= sum(most):
        assert sum(counts) == tasks
        fullest = max(counts)
        assert all(count in (fullest, fullest - 1) or count == most[at] for at, count in enumerate(counts))


def test_nodes_of_one_switch_become_neighbours_and_the_first_stays_the_first():
    switches = {"n3": "s1", "n1": "s2", "n5": "s1", "n2": "s2", "n4": ""}
    paths = {node: (switch,) if switch else () for node, switch in switches.items()}
    assert grouped(("n3", "n1", "n4", "n5", "n2"), paths.__getitem__) == ("n3", "n5", "n1", "n2", "n4")
    assert grouped(("n3", "n1", "n4"), lambda _: ()) == ("n3", "n1", "n4")


def test_within_a_spine_the_nodes_of_a_leaf_are_neighbours():
    paths = {"a": ("s1", "l1"), "b": ("s2", "l1"), "c": ("s1", "l2"), "d": ("s2", "l2"), "e": ("s1", "l1"), "f": ()}
    assert grouped("abcdef", paths.__getitem__) == ("a", "e", "c", "b", "d", "f")


@given(st.lists(st.tuples(st.sampled_from("st"), st.sampled_from("lmn")), max_size=12), st.randoms())
def test_ranks_never_go_back_to_a_switch_whatever_the_order_of_registration(where, random):
    paths = {f"n{number}": path for number, path in enumerate(where)}
    nodes = list(paths)
    random.shuffle(nodes)
    order = [paths[node] for node in grouped(nodes, paths.__getitem__)]
    for depth in (1, 2):
        switches = [path[:depth] for path in order]
        changes = sum(one != other for one, other in itertools.pairwise(switches))
        assert changes == max(len(set(switches)) - 1, 0)
