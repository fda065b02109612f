"""A job that Slurm has queued again begins soon, run with an scontrol that shows it in one state after the other."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "slurm-images/bin/begin-soon"
SCONTROL = """\
#!/bin/bash
if [ "$1" = update ]; then echo "$*" >> "$STATES/told"; exit; fi
[ "$* $SLURM_TIME_FORMAT" = "-o show job 12 %s" ] || exit 1
shown=$(ls "$STATES" | grep -v told | sort -n)
first=${shown%%$'\n'*}
cat "$STATES/$first"
[ "$(wc -l <<< "$shown")" = 1 ] || rm "$STATES/$first"
! grep -q rror "$STATES/$first" 2> /dev/null
"""
COMPLETES = "JobId=12 JobState=COMPLETING Reason=Prolog EligibleTime=0 End"
AWAY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
GONE = "slurm_load_jobs error: Invalid job id specified"


def begin_soon(folder: Path, *states: str) -> list[str]:
    """Run begin-soon; Slurm shows these records in order, then always the last one. Return the commands to Slurm."""
    (folder / "scontrol").write_text(SCONTROL)
    (folder / "scontrol").chmod(0o755)
    seen = folder / "states"
    seen.mkdir()
    for number, state in enumerate(states):
        (seen / str(number)).write_text(state + "\n")
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "STATES": str(seen), "SUNKPY_PAUSE_S": "0.01"}
    subprocess.run([PROGRAM, "12"], env=env, check=True, timeout=30)
    told = seen / "told"
    return told.read_text().splitlines() if told.exists() else []


def put_off(wait_s: int, *, also: str = "", state: str = "PENDING") -> str:
    """A record of the job."""
    return f"JobId=12 {also}JobState={state} Reason=BeginTime EligibleTime={time.time() + wait_s:.0f} End"


def test_it_begins_once_its_nodes_are_free_and_not_two_minutes_later(tmp_path: Path):
    assert begin_soon(tmp_path, COMPLETES, COMPLETES, put_off(121)) == ["update jobid=12 starttime=now+3"]


def test_slurm_may_be_away_meanwhile(tmp_path: Path):
    assert begin_soon(tmp_path, COMPLETES, AWAY, put_off(121)) == ["update jobid=12 starttime=now+3"]


@pytest.mark.parametrize(
    ("also", "id"),
    [("ArrayJobId=10 ArrayTaskId=7 ", "10_7"), ("HetJobId=11 HetJobOffset=1 ", "11+1")],
)
def test_only_the_task_or_part_is_changed(also: str, id: str, tmp_path: Path):
    others = f"JobId=11 {also}JobState=COMPLETING Reason=None EligibleTime=0 End"
    told = begin_soon(tmp_path, f"{others}\n{put_off(121, also=also)}")
    assert told == [f"update jobid={id} starttime=now+3"]


@pytest.mark.parametrize(
    "state",
    [
        GONE,
        put_off(0),
        put_off(3600),
        put_off(121, state="RUNNING"),
        put_off(121, state="COMPLETED"),
    ],
    ids=["forgotten", "begins now", "its owner wants another start", "runs", "has ended"],
)
def test_any_other_job_is_left_alone(state: str, tmp_path: Path):
    assert begin_soon(tmp_path, COMPLETES, state) == []
