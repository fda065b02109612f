import sys

import pytest

from devcluster.shell import CommandFailed, run, succeeds


def test_a_missing_program_points_to_the_doctor():
    with pytest.raises(
        CommandFailed, match=r"`no-such-program` is not on this machine; `.venv/bin/python -m devcluster doctor`"
    ):
        run(["no-such-program"])


def test_a_failing_program_is_quoted_with_what_it_said():
    with pytest.raises(CommandFailed, match=r"`sh -c .*` failed with exit code 3: broken") as caught:
        run(["sh", "-c", "echo broken >&2; exit 3"])
    assert caught.value.code == 3


def test_a_program_that_hangs_is_given_up():
    with pytest.raises(CommandFailed, match=r"did not end within 0\.1 s"):
        run(["sleep", "60"], timeout_s=0.1)


def test_a_question_may_be_answered_no():
    assert run(["echo", "yes"]) == "yes\n"
    assert not succeeds(["false"])


def test_input_is_given_and_the_environment_added_to_ours(monkeypatch):
    monkeypatch.setenv("SIZE", "XL")
    script = "import os,sys; print(sys.stdin.read() + os.environ['COLOUR'] + os.environ['SIZE'])"
    assert run([sys.executable, "-c", script], stdin="so ", env={"COLOUR": "red"}) == "so redXL\n"
