"""What is done about jobs that died with a slurmd, run with programs of Slurm that tell what they are given."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

REQUEUE_LOST = Path(__file__).parents[3] / "slurm-images" / "bin" / "requeue-lost"
NODE = "compute-000-001"
SCONTROL = """\
#!/bin/bash
shows() { echo "JobId=$job $* StartTime=$BEGUN"; }
job=$4
if [ "$2 $3" = "show node" ]; then
  [ -e "$TOLD" ] || { touch "$TOLD"; exit 1; } # slurmctld is away just now
  echo "NodeName=$4 State=${STATE:-MIXED+DRAIN} ThreadsPerCore=1"
  exit
fi
if [ "$1" = -o ]; then
  [ -e "$TOLD.$4" ] || { touch "$TOLD.$4"; [ "$4" != 9000017 ] || exit 1; } # slurmctld is away just now
  if grep -qsx "requeue $4" "$TOLD"; then
    echo "JobId=$4 JobState=PENDING Reason=BeginTime EligibleTime=$(($(date +%s) + 120)) BatchFlag=1"
    exit
  fi
  case $4 in
    9000023) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;;
    9000024) echo "JobId=9000024 JobState=RUNNING Reason=None Requeue=0 BatchFlag=1 StartTime=$((BEGUN + 50))" ;;
    9000025) shows "JobState=COMPLETED Reason=None BatchFlag=1" ;;
    9000026) shows "JobState=RUNNING Reason=None BatchFlag=0 Comment=note AdminComment=k8s:chem/web:1" ;;
    9000027) shows "JobName=a HetJobId=9000001 HetJobOffset=0 JobState=RUNNING Reason=None BatchFlag=1" ;;
    9000011) shows "JobState=RUNNING Reason=Prolog Requeue=0 BatchFlag=1" ;;
    9000012) shows "JobState=RUNNING Reason=Prolog Requeue=0 BatchFlag=0" ;;
    9000013) shows "JobState=RUNNING Reason=None Requeue=0 BatchFlag=0" ;;
    9000015) shows "JobState=RUNNING Reason=Prolog Requeue=0 BatchFlag=1" ;;
    9000016) shows "JobState=RUNNING Reason=None Requeue=0 BatchFlag=0 Comment=k8s:chem/web:1" ;;
    9000017) shows "JobState=RUNNING Reason=None Requeue=0 BatchFlag=1 Comment=k8s:chem/gang:1" ;;
    9000018) shows "JobState=RUNNING Reason=None Requeue=0 BatchFlag=1 AdminComment=of the site" ;;
    9000022) shows "HetJobId=9000019 HetJobOffset=3 JobState=RUNNING Reason=None BatchFlag=1" ;;
    9000014) shows "JobState=RUNNING Reason=Prolog Requeue=1 BatchFlag=1" ;;
    9000020)
      echo "JobId=9000020 ArrayJobId=9000020 ArrayTaskId=7 JobState=RUNNING Reason=None BatchFlag=1 StartTime=$BEGUN"
      echo "JobId=9000021 ArrayJobId=9000020 ArrayTaskId=6 JobState=RUNNING Reason=Prolog BatchFlag=1 StartTime=$BEGUN"
      ;;
    *) shows "JobState=RUNNING Reason=None BatchFlag=1" ;;
  esac
  exit
fi
[ "$2" != 9000008 ] || exit 1 # submitted with --no-requeue
[ "$*" != "requeue 9000015" ] || exit 1 # it has begun meanwhile
echo "$@" >> "$TOLD"
"""
SCANCEL = """\
#!/bin/bash
echo "cancel $1" >> "$TOLD"
"""
SQUEUE = """\
#!/bin/bash
echo "squeue $*" >> "$TOLD"
[ "$SLURM_TIME_FORMAT" = %s ] && echo "$JOBS"
"""
ALLOCATIONS = ("9000012", "9000013", "9000016", "9000026")
PGREP = """\
#!/bin/bash
[[ $2 == *'[9000009\\.'* ]]
"""


def requeue_lost(folder: Path, *jobs: str, later: str = "", elsewhere: str = "") -> tuple[list[str], str]:
    """Run requeue-lost after a slurmd that had these jobs. Return its calls of Slurm's commands, and its output.

    `later`: a job that starts after slurmd. `elsewhere`: a job whose script runs on another node.
    """
    told = folder / "told"
    for name, text in (("scontrol", SCONTROL), ("scancel", SCANCEL), ("squeue", SQUEUE), ("pgrep", PGREP)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    now = int(time.time())
    rows = [f"{job:24}{job not in ALLOCATIONS:<4d}{NODE:256}{now - 60}" for job in jobs]
    rows += [f"{job:24}1   {NODE:256}{now + 60}" for job in later.split()]
    rows += [f"{job:24}1   {'node-9':256}{now - 60}" for job in elsewhere.split()]
    with socket.create_server(("127.0.0.1", 0)) as slurmd:
        port = str(slurmd.getsockname()[1])
        env = {"PATH": f"{folder}:{REQUEUE_LOST.parent}:{os.environ['PATH']}", "TOLD": str(told)}
        env |= {"SUNKPY_SLURMD_PORT": port, "SUNKPY_MARKERS": str(folder / "markers"), "SUNKPY_SPOOL": str(folder)}
        env |= {"SUNKPY_REGISTERS_S": "0", "SUNKPY_SLURM_NODE": NODE, "JOBS": "\n".join(rows)}
        env |= {"BEGUN": str(now - 60), "SUNKPY_PROC": str(folder / "proc")}
        env |= {"STATE": "MIXED+DRAIN" if rows else "IDLE"}
        run = subprocess.run([REQUEUE_LOST], env=env, check=True, timeout=120, capture_output=True, text=True)
    lines = told.read_text().splitlines() if told.exists() else []
    return [line for line in lines if "squeue" not in line or not rows], run.stdout


def test_jobs_that_died_are_requeued_where_they_may_be(tmp_path: Path):
    told, said = requeue_lost(tmp_path, "9000007", "9000008", "9000010")
    assert told == ["requeue 9000007", "requeue 9000010"]
    assert "job 9000007" in said
    assert "job 9000008" not in said


def test_of_an_array_one_task_is_requeued_and_not_those_on_other_nodes(tmp_path: Path):
    assert requeue_lost(tmp_path, "9000020")[0] == ["requeue 9000020_7"]


def test_a_job_that_was_ordered_again_and_runs_is_left_alone(tmp_path: Path):
    assert requeue_lost(tmp_path, "9000009") == ([], "")


def test_one_whose_prolog_runs_here_is_left_alone(tmp_path: Path):
    (tmp_path / "proc/345").mkdir(parents=True)
    (tmp_path / "proc/345/environ").write_bytes(b"PATH=/bin\0SLURM_JOB_ID=9000011\0")
    assert requeue_lost(tmp_path, "9000011") == ([], "")


def test_one_that_started_once_slurmd_was_there_or_on_another_node_is_left_alone(tmp_path: Path):
    assert requeue_lost(tmp_path, "9000007", later="9000010", elsewhere="9000014")[0] == ["requeue 9000007"]


def test_of_an_idle_node_slurmctld_lists_no_jobs(tmp_path: Path):
    assert requeue_lost(tmp_path) == ([], "")


def test_one_that_waited_in_its_prolog_is_requeued_whatever_it_was_submitted_with_and_begins_soon(tmp_path: Path):
    told = requeue_lost(tmp_path, "9000011", "9000014")[0]
    first, last = "update jobid=9000011 requeue=1", "update jobid=9000011 requeue=0"
    assert told[:5] == [first, "requeue 9000011", last, "update jobid=9000014 requeue=1", "requeue 9000014"]
    assert set(told[5:]) == {f"update jobid={job} starttime=now+3" for job in ("9000011", "9000014")}


def test_one_that_cannot_be_requeued_has_its_setting_again_and_no_other_start(tmp_path: Path):
    """Slurm refuses a start time of a job that runs, and all that is asked for with it."""
    assert requeue_lost(tmp_path, "9000015")[0] == ["update jobid=9000015 requeue=1", "update jobid=9000015 requeue=0"]


def test_an_allocation_is_cancelled_if_it_waited_in_its_prolog_and_lives_on_if_not(tmp_path: Path):
    told, said = requeue_lost(tmp_path, "9000012", "9000013")
    assert told == ["cancel 9000012"]
    assert "allocation 9000012" in said


def test_an_allocation_that_has_passed_its_prolog_here_waits_on_another_node_and_is_left_alone(tmp_path: Path):
    (tmp_path / "markers/passed").mkdir(parents=True)
    (tmp_path / "markers/passed/9000012").touch()
    assert requeue_lost(tmp_path, "9000012") == ([], "")


def replace_pod(folder: Path, *passed: str) -> None:
    """The pod of slurmd is another one, or has another address. Only the Prologs of these jobs have ended since."""
    (folder / "markers/passed").mkdir(parents=True)
    (folder / "address").write_text("10.0.0.2/second\n")
    for job in map(str, range(9000007, 9000030)):
        where = "10.0.0.2/second\n" if job in passed else "10.0.0.1/first\n"
        (folder / f"markers/passed/{job}").write_text(where)


TELL = f"the slurmd pod of {NODE} was replaced, so the job has lost this node"


def test_an_allocation_ends_that_the_slurmd_of_a_new_pod_does_not_know(tmp_path: Path):
    replace_pod(tmp_path, "9000012")
    told, said = requeue_lost(tmp_path, "9000012", "9000013")
    assert told == [f"notify 9000013 {TELL}", f"update jobid=9000013 admincomment={TELL}", "cancel 9000013"]
    assert said == "start-slurmd: allocation 9000013 has lost this node with the previous pod and is cancelled\n"


def test_so_does_a_job_whose_script_runs_on_another_node_or_it_is_requeued(tmp_path: Path):
    replace_pod(tmp_path, "9000010")
    told, said = requeue_lost(tmp_path, elsewhere="9000007 9000010 9000018")
    assert told == [
        f"notify 9000007 {TELL}",
        f"update jobid=9000007 admincomment={TELL}",
        "requeue 9000007",
        f"notify 9000018 {TELL}",
        "cancel 9000018",
    ]
    assert "job 9000018 has lost this node with the previous pod and is cancelled" in said


def test_jobs_of_pods_need_no_slurmd_and_live_on(tmp_path: Path):
    replace_pod(tmp_path)
    assert requeue_lost(tmp_path, "9000016", elsewhere="9000017") == ([], "")


def test_their_comment_may_have_been_changed_but_not_their_seal_or_the_marker(tmp_path: Path):
    replace_pod(tmp_path)
    (tmp_path / "markers/9000013").touch()
    assert requeue_lost(tmp_path, "9000013", "9000026") == ([], "")


def test_a_note_of_an_older_chart_and_a_job_without_one_prove_nothing(tmp_path: Path):
    replace_pod(tmp_path)
    (tmp_path / "markers/passed/9000013").write_text("")
    (tmp_path / "markers/passed/9000018").unlink()
    assert requeue_lost(tmp_path, "9000013", elsewhere="9000018") == ([], "")


def test_only_the_run_that_was_lost_ends(tmp_path: Path):
    """Meanwhile the job has ended, or another node has requeued it and it runs again."""
    replace_pod(tmp_path)
    assert requeue_lost(tmp_path, "9000024", elsewhere="9000023 9000024 9000025") == ([], "")


def test_a_job_that_is_named_like_a_part_of_another_one_ends_alone(tmp_path: Path):
    replace_pod(tmp_path)
    assert requeue_lost(tmp_path, elsewhere="9000027")[0][-1] == "requeue 9000027"


def test_a_heterogeneous_job_is_requeued_as_a_whole(tmp_path: Path):
    replace_pod(tmp_path)
    assert "requeue 9000019" in requeue_lost(tmp_path, elsewhere="9000022")[0]


def test_one_whose_prolog_died_here_is_requeued_wherever_its_script_would_run(tmp_path: Path):
    """Nothing has run of it, and Slurm orders the Prolog once."""
    replace_pod(tmp_path)
    (tmp_path / "markers/passed/9000014").unlink()
    assert requeue_lost(tmp_path, elsewhere="9000014")[0][:2] == ["update jobid=9000014 requeue=1", "requeue 9000014"]
