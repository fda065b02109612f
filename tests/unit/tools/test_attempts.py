"""A test that passes when it is tried again does not fail the run."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
FILE = """
import socket

attempts = []

def test_it():
    attempts.append(1)
    if len(attempts) == 1:
        left_open = socket.socket()
        itself = [left_open]
        itself.append(itself)  # only the collector of garbage frees it
    assert len(attempts) == {passes}
"""


@pytest.mark.parametrize(("passes", "fails"), [(2, False), (1, True)])
def test_only_what_a_failed_attempt_left_open_is_forgiven(pytester, monkeypatch, passes, fails):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(test_it=FILE.format(passes=passes))
    mode = ("-o", "asyncio_default_fixture_loop_scope=function")
    options = ("-p", "tests.attempts", "-p", "no:cacheprovider", "-W", "error", "--reruns", "1", *mode)
    assert (pytester.runpytest_subprocess(*options).ret != 0) is fails
