"""What batch scripts write is what is read back."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.bench.chaos.load import batch_script, read_lines
from tests.bench.chaos.schedule import Door, Manner, PlannedJob


@pytest.mark.parametrize("manner", [Manner.PROMPT, Manner.TIDY, Manner.STUBBORN])
def test_a_script_that_is_left_alone_writes_start_and_end(tmp_path, manner):
    job = PlannedJob(number=1, at_s=0, door=Door.SBATCH, partition="low", manner=manner, lasts_s=0.05)
    (tmp_path / "chaos").mkdir()
    environ = {"HOME": str(tmp_path), "CHAOS_JOB": "chaos-1-1", "SLURMD_NODENAME": "n1", "PATH": os.environ["PATH"]}
    subprocess.run(["bash", "-c", batch_script(job)], env=environ, check=True)
    said = (tmp_path / "chaos/chaos-1-1").read_text()
    lines = read_lines("\n".join(f"chaos-1-1:{line}" for line in said.splitlines()))["chaos-1-1"]
    assert [(line.what, line.node, line.run) for line in lines] == [("start", "n1", 0), ("end", "n1", 0)]
    assert lines[0].at_s < lines[1].at_s


def test_a_line_that_a_kill_cut_short_is_left_out():
    assert read_lines("a:start 5.0 n1 0\na:end 6.") == read_lines("a:start 5.0 n1 0")
