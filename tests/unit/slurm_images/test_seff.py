"""seff, run with an sacct that says what Slurm's says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SEFF = Path(__file__).parents[3] / "slurm-images/bin/seff"
ENDED = """\
12|12|it|ann|chem|COMPLETED|0:0|2|8|01:30.500|60|billing=8,cpu=8,mem=4G,node=2||
12.batch|12.batch|it|||COMPLETED|0:0|1|4|00:10.500|60|cpu=4,mem=2G,node=1|204800K|1
12.0|12.0|it|||COMPLETED|0:0|2|8|01:20.000|50|cpu=8,mem=4G,node=2|524288K|2
"""
LONG = "20|20_3|it|bob|phys|TIMEOUT|0:0|1|1|1-02:03:04|172800|cpu=1,mem=512M||\n"


def seff(folder: Path, says: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "sacct").write_text(f'#!/bin/bash\necho "$*" > {folder}/asked\ncat {folder}/says\n')
    (folder / "sacct").chmod(0o755)
    (folder / "says").write_text(says)
    env = {"PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run([SEFF, *words], env=env, capture_output=True, text=True, check=False)


def test_it_says_what_a_job_used_of_what_it_had(tmp_path: Path):
    done = seff(tmp_path, ENDED, "12")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "Job ID: 12\n"
        "Cluster: it\n"
        "User/Group: ann/chem\n"
        "State: COMPLETED (exit code 0)\n"
        "Nodes: 2\n"
        "Cores: 8\n"
        "CPU Utilized: 00:01:30\n"
        "CPU Efficiency: 18.85% of 00:08:00 core-walltime\n"
        "Job Wall-clock time: 00:01:00\n"
        "Memory Utilized: 1.00 GiB (the largest step)\n"
        "Memory Efficiency: 25.00% of 4.00 GiB\n"
    )
    assert (tmp_path / "asked").read_text().startswith("--jobs=12 ")


def test_days_and_tasks_of_an_array_are_read(tmp_path: Path):
    said = seff(tmp_path, LONG, "20_3").stdout.splitlines()
    assert said[0] == "Job ID: 20 (20_3)"
    assert said[6:9] == [
        "CPU Utilized: 1-02:03:04",
        "CPU Efficiency: 54.27% of 2-00:00:00 core-walltime",
        "Job Wall-clock time: 2-00:00:00",
    ]


@pytest.mark.parametrize(
    ("says", "words", "code", "why"),
    [
        ("", ["12"], 1, "seff: accounting knows no job 12\n"),
        (ENDED + LONG, ["12"], 1, "seff: job 12 has several tasks or parts: name one, as squeue does\n"),
        ("", [], 2, "usage: seff JOB    (12, or 12_3 of an array): what the job used of what it had\n"),
        ("", ["--help"], 2, "usage: seff JOB    (12, or 12_3 of an array): what the job used of what it had\n"),
    ],
)
def test_it_says_what_it_cannot_answer(says: str, words: list[str], code: int, why: str, tmp_path: Path):
    done = seff(tmp_path, says, *words)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", why)
