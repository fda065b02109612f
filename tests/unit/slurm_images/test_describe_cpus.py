"""What slurmd gets to know about the machine's cpus, from what /sys says about them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "slurm-images" / "bin" / "describe-cpus"


def describe(folder: Path, siblings: Sequence[str], online: str) -> subprocess.CompletedProcess[str]:
    """Run describe-cpus on a machine whose cpus have these siblings, as the kernel lists them for each."""
    (folder / "online").write_text(f"{online}\n")
    for number, text in enumerate(siblings):
        topology = folder / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{text}\n")
    env = {"PATH": os.environ["PATH"], "SUNKPY_SYS_CPU": str(folder)}
    return subprocess.run([PROGRAM], env=env, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize(
    ("siblings", "online", "found"),
    [
        pytest.param(["0", "1", "2", "3"], "0-3", "", id="one thread per core"),
        pytest.param(["0,2", "1,3", "0,2", "1,3"], "0-3", "pack:1 core:4 pu:1", id="two, numbered apart"),
        pytest.param(["0-1", "0-1", "2-3", "2-3"], "0-3", "pack:1 core:4 pu:1", id="two, numbered together"),
        pytest.param(["0", "2"], "0,2", "", id="the second threads are offline"),
        pytest.param([], "0", "", id="nothing is known"),
    ],
)
def test_each_thread_is_a_core_where_slurm_would_use_every_other_one(tmp_path: Path, siblings, online, found):
    done = describe(tmp_path, siblings, online)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, found, "")


def test_a_machine_that_cannot_be_described_so_says_what_follows(tmp_path: Path):
    done = describe(tmp_path, ["0-1", "0-1"], "0-1,4-5")
    assert (done.returncode, done.stdout) == (0, "")
    assert "only cpus 0-1,4-5 are online" in done.stderr
    assert "slurmConfig.cgroup: disabled" in done.stderr
