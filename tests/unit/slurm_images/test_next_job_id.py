"""Ids go on behind what slurmctld may have forgotten, on files as it leaves them in its state folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

NEXT_JOB_ID = Path(__file__).parents[3] / "slurm-images" / "bin" / "next-job-id"
SAVED_S = 1_000_000.0


def next_job_id(folder: Path, scripts: dict[int, float], *, conf: str = "", is_saved: bool = True) -> str:
    """What is said of scripts that were written so many seconds after the jobs were saved."""
    folder.mkdir(exist_ok=True)
    state, slurm_conf = folder / "state", folder / "slurm.conf"
    slurm_conf.write_text(conf)
    for job, after_s in scripts.items():
        script = state / f"hash.{job % 10}" / f"job.{job}"
        script.mkdir(parents=True)
        os.utime(script, (SAVED_S, SAVED_S + after_s))
    state.mkdir(exist_ok=True)
    if is_saved:
        (state / "job_state").touch()
        os.utime(state / "job_state", (SAVED_S, SAVED_S))
    asked = subprocess.run([NEXT_JOB_ID, state, slurm_conf], check=True, timeout=20, capture_output=True, text=True)
    return asked.stdout.strip()


@pytest.mark.parametrize(
    ("scripts", "said"),
    [
        ({}, ""),
        ({7: -60.0}, ""),
        ({7: -60.0, 8: 1.0}, "1008"),
        ({8: 1.0, 9: 2.0, 12: 3.0}, "1012"),
        ({99: 1.0, 100: 1.5}, "1100"),
    ],
    ids=["no job", "all saved", "one forgotten", "behind the last", "by number"],
)
def test_ids_go_on_behind_the_last_job_that_was_not_saved(tmp_path: Path, scripts: dict[int, float], said: str):
    assert next_job_id(tmp_path, scripts) == said


def test_a_job_that_came_while_the_others_were_being_saved_counts_as_forgotten(tmp_path: Path):
    assert next_job_id(tmp_path, {7: -60.0, 8: -0.3}) == "1008"


def test_a_slurmctld_that_never_saved_begins_as_it_would(tmp_path: Path):
    assert next_job_id(tmp_path, {7: 1.0}, is_saved=False) == ""


@pytest.mark.parametrize(
    "conf",
    ["MaxJobId = 9000", "  MaxJobId=9000 # and no more", "FirstJobId=1 maxjobid=9000", 'MaxJobId="9000"',
     "#MaxJobId=70000\nMaxJobId=9000\n# MaxJobId=70000"],
)  # fmt: skip
def test_how_many_ids_there_are_is_read_as_slurm_reads_it(tmp_path: Path, conf: str):
    assert next_job_id(tmp_path, {8000: 1.0}, conf=conf) == ""


def test_where_ids_would_begin_anew_slurm_chooses(tmp_path: Path):
    assert next_job_id(tmp_path, {8000: 1.0}, conf="ClusterName=a\nMaxJobId=9000\n") == ""
    assert next_job_id(tmp_path / "other", {6000: 1.0}, conf="maxjobid=9000\n") == "7000"
