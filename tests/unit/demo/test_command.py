import os
import time

import pytest

from demo.command import Remote, follow
from devcluster.shell import CommandFailed


def test_a_remote_watch_has_begun_when_it_is_made_and_tells_its_time() -> None:
    before_s = time.time()
    watch = Remote("bash", "-c", "echo ready; date +%s.%N", env=os.environ, timeout_s=60)
    assert before_s <= watch.time_s() <= time.time()


def test_a_remote_watch_that_ends_early_says_why() -> None:
    with pytest.raises(CommandFailed, match="no such pod"):
        Remote("bash", "-c", "echo no such pod >&2; exit 3", env=os.environ, timeout_s=60)


def test_a_long_program_is_told_line_by_line() -> None:
    lines: list[str] = []
    with pytest.raises(CommandFailed, match="failed with exit code 3: one\ntwo"):
        follow("bash", "-c", "echo one; echo two >&2; exit 3", tell=lines.append)
    assert lines == ["one", "two"]


def test_a_remote_watch_that_hangs_is_ended() -> None:
    watch = Remote("bash", "-c", "echo ready; sleep 30", env=os.environ, timeout_s=0.05)
    with pytest.raises(CommandFailed, match=r"did not end within 0\.05 s"):
        watch.time_s()
