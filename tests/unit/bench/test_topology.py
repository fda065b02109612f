"""What the bench of topologies takes for ranks that alternate between leaves."""

from __future__ import annotations

import pytest

from tests.bench.topology import alternates


@pytest.mark.parametrize(
    ("leaves", "do_alternate"),
    [("", False), ("aabb", False), ("bbaacc", False), ("abab", True), ("aaba", True), ("abc", False)],
)
def test_ranks_alternate_when_they_come_back_to_a_leaf(leaves, do_alternate):
    assert alternates(leaves) is do_alternate
