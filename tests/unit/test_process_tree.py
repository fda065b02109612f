import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from devcluster.waiting import wait
from tests import process_tree

SCRIPT = "(sleep 61 & exec sleep 62) & sleep 61 & wait"


@pytest.fixture
def trees() -> Iterator[tuple[int, int]]:
    """Two who run the same."""
    with ExitStack() as ends:
        parents = []
        for _ in range(2):
            process = ends.enter_context(
                subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "bash", "-c", SCRIPT])
            )
            ends.callback(process.kill)
            parents.append(process.pid)
        for parent in parents:
            wait(
                lambda parent=parent: len(process_tree.running(parent, "sleep 6[12]")) == 3,
                timeout_s=20,
                what="all run",
            )
        yield parents[0], parents[1]


def test_those_of_another_parent_are_not_found(trees):
    one, other = (set(process_tree.running(parent, "sleep 61")) for parent in trees)
    assert (len(one), len(other), one & other) == (2, 2, set())


def test_the_whole_command_line_is_matched(trees):
    assert process_tree.running(trees[0], "sleep 6") == []
    assert process_tree.running(trees[0], "bash -c .*") != []


def test_names_are_those_of_programs(trees):
    assert {process_tree.program(pid) for pid in process_tree.below(trees[0])} == {"bash", "sleep"}
