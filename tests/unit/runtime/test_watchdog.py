"""The watchdog in processes of their own, for it ends them."""

from __future__ import annotations

import subprocess
import sys

import pytest

STUCK = {
    "in a loop of its own": "while True: pass",
    "in a call that holds the interpreter": "re.match('(a+)+$', 'a' * 64 + 'b')",
    "in a thread, after the event loop": "asyncio.run(asyncio.to_thread(threading.Event().wait))",
}
HEAD = """
import asyncio, re, threading
from sunkpy.runtime.watchdog import ExitWatchdog
def work():
    {work}
dog = ExitWatchdog()
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("work", STUCK.values(), ids=STUCK.keys())
def test_work_that_never_comes_back_ends_the_process_and_says_where_it_stood(work: str) -> None:
    ended = run(HEAD.format(work=work) + "dog.arm(60)\ndog.arm(0.2)\nwork()")
    assert ended.returncode == 1
    assert "in work" in ended.stderr


def test_a_process_whose_watchdog_was_disarmed_lives_on() -> None:
    ended = run(HEAD.format(work="pass") + "dog.arm(1)\ndog.disarm()\nthreading.Event().wait(1.5)\nprint('alive')")
    assert (ended.returncode, ended.stdout) == (0, "alive\n")
