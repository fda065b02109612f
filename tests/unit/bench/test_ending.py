"""A bench that is told to end, as release-check and `timeout` tell it, removes what it made."""

from __future__ import annotations

import subprocess
import sys

_BENCH = """
import time
from tests.bench import __main__ as bench

def measure(_):
    try:
        print("up", flush=True)
        time.sleep(60)
    finally:
        print("down", flush=True)

bench.BENCHES["page"] = measure
bench.main(["page"])
"""


def test_a_bench_that_is_told_to_end_takes_its_cluster_down():
    with subprocess.Popen([sys.executable, "-c", _BENCH], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "up\n"
        process.terminate()
        assert process.stdout.read() == "down\n"
    assert process.returncode == 143
