"""A run of tests says where its minutes went."""

from __future__ import annotations

import msgspec

from tests import minutes

pytest_plugins = ["pytester"]

FILE = """
import subprocess, sys, time
import pytest

@pytest.fixture(scope="session")
def slow():
    time.sleep(0.3)

def test_waits(slow):
    time.sleep(0.2)

def test_works():
    subprocess.run([sys.executable, "-c", "sum(range(10 ** 7))"])

def test_fails():
    assert False
"""


def test_fixtures_work_and_waiting_are_told_apart(pytester, monkeypatch):
    monkeypatch.setattr(minutes, "FOLDER", pytester.path)
    pytester.makepyfile(test_it=FILE)
    options = ("-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function")
    pytester.inline_run(*options, plugins=[minutes.Minutes("it")]).assertoutcome(passed=2, failed=1)
    part = msgspec.json.decode((pytester.path / "it.json").read_bytes(), type=minutes.Part)
    spent = part.files["test_it.py"]
    assert spent.tests == 3
    assert spent.fixtures_s >= 0.3
    assert spent.calls_s >= 0.2
    assert spent.work_s > 0.05
    assert spent.seconds - spent.work_s >= 0.4  # the system counts work in ticks of 10 ms
    assert part.seconds >= spent.seconds
