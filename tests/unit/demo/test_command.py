import os
import sys
import time

import pytest

from demo.command import CommandFailed, Remote, follow, run


def test_output_is_returned_and_input_and_environment_are_given() -> None:
    script = "import os,sys; print(sys.stdin.read() + os.environ['COLOUR'])"
    assert run(sys.executable, "-c", script, stdin="so ", env={"COLOUR": "red"}) == "so red\n"


def test_a_failure_says_what_was_run_and_what_it_said() -> None:
    with pytest.raises(CommandFailed, match=r"sys.exit.* ended with 1: no such partition") as caught:
        run(sys.executable, "-c", "import sys; sys.exit('no such partition')")
    assert caught.value.code == 1


def test_a_program_that_hangs_is_ended() -> None:
    with pytest.raises(CommandFailed, match="did not end in time"):
        run("sleep", "30", timeout_s=0.05)


def test_a_missing_program_is_named() -> None:
    with pytest.raises(CommandFailed, match="kubectl-nope is not installed"):
        run("kubectl-nope")


def test_a_remote_watch_has_begun_when_it_is_made_and_tells_its_time() -> None:
    before_s = time.time()
    watch = Remote("bash", "-c", "echo ready; date +%s.%N", env=os.environ, timeout_s=10)
    assert before_s <= watch.time_s() <= time.time()


def test_a_remote_watch_that_ends_early_says_why() -> None:
    with pytest.raises(CommandFailed, match="no such pod"):
        Remote("bash", "-c", "echo no such pod >&2; exit 3", env=os.environ, timeout_s=10)


def test_a_long_program_is_told_line_by_line() -> None:
    lines: list[str] = []
    with pytest.raises(CommandFailed, match="ended with 3: one\ntwo"):
        follow("bash", "-c", "echo one; echo two >&2; exit 3", tell=lines.append)
    assert lines == ["one", "two"]
