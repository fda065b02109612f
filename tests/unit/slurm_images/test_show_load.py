"""What people see when they log in: nodes by state, and their own jobs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "show-load"


def show(folder: Path, *, sinfo: str, squeue: str = "true") -> subprocess.CompletedProcess[str]:
    """What it says, where Slurm's commands are these scripts."""
    for name, script in (("sinfo", sinfo), ("squeue", squeue)):
        (folder / name).write_text(f"#!/bin/bash\n{script}\n")
        (folder / name).chmod(0o755)
    path = {"PATH": f"{folder}:/usr/bin:/bin"}
    return subprocess.run([PROGRAM], env=path, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize(
    ("state", "column"),
    [
        ("idle", "idle"), ("idle~", "idle"), ("idle#", "idle"), ("planned", "idle"), ("idle-", "idle"),
        ("mixed", "mixed"), ("mixed-", "mixed"), ("mixed+", "mixed"),
        ("allocated", "alloc"), ("allocated+", "alloc"), ("completing", "alloc"),
        ("draining", "drain"), ("drained", "drain"), ("maint", "drain"), ("reserved", "drain"),
        ("idle*", "down"), ("mixed*", "down"), ("drained*", "down"), ("down", "down"), ("down*", "down"),
        ("fail", "down"), ("unknown", "down"), ("inval", "down"), ("n/a", "down"),
    ],
)  # fmt: skip
def test_each_state_of_slurm_is_one_that_people_understand(tmp_path: Path, state: str, column: str):
    header, line = (row.split() for row in show(tmp_path, sinfo=f"echo 'low up 7 {state}'").stdout.splitlines())
    assert {name: int(count) for name, count in zip(header[2:], line[2:], strict=True) if count != "0"} == {column: 7}


def test_states_of_one_kind_are_added_up_for_each_partition_in_slurms_order(tmp_path: Path):
    states = ("low up 2 idle", "low up 1 mixed", "high up 3 drained", "low up 4 idle~", "closed down 0 n/a")
    shown = show(tmp_path, sinfo=f"printf '%s\\n' {' '.join(repr(each) for each in states)}").stdout
    assert shown == (
        "PARTITION        STATE    idle  mixed  alloc  drain   down\n"
        "low              up          6      1      0      0      0\n"
        "high             up          0      0      0      3      0\n"
        "closed           down        0      0      0      0      0\n"
    )


def test_ones_own_jobs_are_counted_by_state(tmp_path: Path):
    squeue = "printf '%s\\n' RUNNING PENDING RUNNING"
    assert show(tmp_path, sinfo="echo low up 1 idle", squeue=squeue).stdout.endswith(
        "Your jobs: 1 pending, 2 running\n"
    )
    assert "jobs" not in show(tmp_path, sinfo="echo low up 1 idle").stdout


def test_without_slurm_it_says_nothing_and_fails(tmp_path: Path):
    shown = show(tmp_path, sinfo="echo no >&2; exit 1", squeue="exit 1")
    assert (shown.returncode != 0, shown.stdout) == (True, "")
