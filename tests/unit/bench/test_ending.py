"""A bench that gets SIGTERM removes what it made, also if it gets the signal twice: from release-check, and from the
make between them.

A bench that is killed cannot remove anything; `make clean-cluster` does.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from demo.stack import ROOT, Stack
from tests.e2e import workloads

_BENCH = """
import sys, time
from tests.bench import __main__ as bench

def measure(_):
    try:
        print("up", flush=True)
        while True:  # signal.pause() would wait for one more, had the first come right before it
            time.sleep(0.1)
    finally:
        print("ends", flush=True)
        sys.stdin.readline()
        print("down", flush=True)

bench.BENCHES["page"] = measure
bench.main(["page"])
"""


def test_a_bench_that_is_told_to_end_twice_takes_its_cluster_down():
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _BENCH], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "up\n"
        process.terminate()
        assert process.stdout.readline() == "ends\n"
        process.terminate()
        told, _ = process.communicate("\n")
    assert (told, process.returncode) == ("down\n", 143)


def test_clean_cluster_knows_the_clusters_that_benches_and_tests_have_for_themselves():
    def named_in(folder: str, pattern: str) -> set[str]:
        return {name for file in (ROOT / folder).rglob("*.py") for name in re.findall(pattern, file.read_text())}

    own = named_in("tests/bench", r'own_(?:stack|cluster)\("(\w+)"') | named_in(
        "tests", r'=\s*Cluster\(f"{CLUSTER}-(\w+)"'
    )
    (named,) = re.findall(r"\$\(CLUSTER\)-{(.*)}", (ROOT / "Makefile").read_text())
    assert set(named.split(",")) == own | {"room"}


def test_a_pod_leaves_no_folder_outside_its_cluster(tmp_path: Path):
    """On every node the kubelet makes the folder of a hostPath that is not there."""
    plain = workloads.pod("a", image="sunkpy:1", scheduler="slurm", command=["true"])
    assert plain["spec"]["volumes"] == []
    stack = Stack(suite="trixie", kubeconfig=tmp_path / "admin.conf", bin_dir=None, images={"sunkpy": "sunkpy:1"})
    stamping = workloads.living_pod("b", stack=stack, cpu="1", tidy_s=0, grace_s=1, labels={})
    (volume,) = stamping["spec"]["volumes"]
    assert volume["hostPath"]["path"] == str(tmp_path / "stamps")
