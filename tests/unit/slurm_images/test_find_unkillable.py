"""find-unkillable reports a job whose processes outlive SIGKILL, where slurmstepd does not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.waiting import wait_until

SCRIPT = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "find-unkillable"
SCONTROL = """\
#!/bin/bash
case $* in
  *config*) printf '%s\\n' "UnkillableStepProgram   = $PROGRAM" 'UnkillableStepTimeout   = 1 sec' ;;
  *show*) echo "NodeName=n State=$(< state) Reason=none" ;;
  *) echo "${*: -1}" >> told && echo IDLE+DRAIN > state ;;
esac
"""
SQUEUE = """\
#!/bin/bash
echo "$*" >> asked
cat completing
"""
PGREP = """\
#!/bin/bash
cat steps
"""
REPORT = """\
#!/bin/bash
echo "program $SLURM_JOB_ID $SLURM_STEP_ID" >> told
"""
EXITS, KILLED = 0x40_0004, "0000000000000100"


class Pod:
    """A pod of slurmd with one process, and a Slurm that is asked of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        programs = {"scontrol": SCONTROL, "squeue": SQUEUE, "pgrep": PGREP, "report": REPORT}
        for name, text in programs.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        self.write("state", "IDLE+COMPLETING")
        self.write("completing", "12\n")
        self.write("steps", "7 slurmstepd: [12.extern]\n8 slurmstepd: [12.batch]\n9 slurmstepd: [120.batch]\n")

    def write(self, name: str, text: str) -> None:
        """What a program says."""
        (self._folder / name).write_text(text)

    def has(self, state: str, *, flags: int = 0, threads: int = 1, pending: str = "0") -> None:
        """The process is so now."""
        own = self._folder / "proc/345"
        own.mkdir(parents=True, exist_ok=True)
        (own / "stat").write_text(f"345 (a) D (b) {state} 1 1 1 0 -1 {flags} {'0 ' * 10}{threads} 0 99\n")
        (own / "status").write_text(f"Name:\ta\nSigPnd:\t0000000000000000\nShdPnd:\t{pending.zfill(16)}\n")

    def looks(self, program: str = "report") -> subprocess.Popen[bytes]:
        """It is looked at, for ever."""
        env = {
            **os.environ, "SUNKPY_PROC": str(self._folder / "proc"), "SUNKPY_SLURM_NODE": "n", "SUNKPY_PAUSE_S": "0.05",
            "SUNKPY_LATER_S": "0", "PATH": f"{self._folder}:{os.environ['PATH']}", "PROGRAM": program,
        }  # fmt: skip
        return subprocess.Popen([SCRIPT], env=env, cwd=self._folder)

    def lines(self, name: str) -> list[str]:
        """The calls of a program."""
        file = self._folder / name
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


@pytest.fixture
def looking(pod: Pod) -> Iterator[list[subprocess.Popen[bytes]]]:
    """What looks, ended in the end."""
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for each in found:
        each.kill()
        each.wait()


def told(pod: Pod, *lines: str) -> bool | None:
    """Only that, after some time."""
    return wait_until(lambda: pod.lines("told") == [*lines], timeout_s=20, every_s=0.05)


@pytest.mark.parametrize(
    "process",
    [
        {"state": "D", "pending": KILLED},
        {"state": "D", "flags": EXITS},
        {"state": "Z", "flags": EXITS, "threads": 2},
    ],
)
def test_the_program_of_slurm_is_run_and_the_node_drained(pod: Pod, looking, process):
    pod.has(**process)
    looking.append(pod.looks())
    assert told(pod, "program 12 4294967291", "reason=Kill task failed: job 12 step batch")
    # Once for a job, however long it stays.
    looks = len(pod.lines("asked"))
    assert wait_until(lambda: len(pod.lines("asked")) > looks + 5, timeout_s=20, every_s=0.05)
    assert len(pod.lines("told")) == 2
    assert set(pod.lines("asked")) == {"--noheader --states=COMPLETING --nodelist=n --Format=JobID:24"}


@pytest.mark.parametrize(
    "process",
    [
        {"state": "D"},
        {"state": "D", "pending": "8200"},  # other signals
        {"state": "S", "pending": KILLED},
        {"state": "Z", "flags": EXITS},
    ],
)
def test_slurm_is_not_asked_while_no_process_waits_that_was_told_to_end(pod: Pod, looking, process):
    pod.has(**process)
    looking.append(pod.looks())
    with pytest.raises(subprocess.TimeoutExpired):
        looking[0].wait(timeout=1)
    assert pod.lines("asked") == []


@pytest.mark.parametrize(
    ("completing", "steps"), [("", "8 slurmstepd: [12.batch]\n"), ("12\n", "8 slurmstepd: [120.batch]\n")]
)
def test_a_job_that_runs_and_one_without_a_step_here_drain_no_node(pod: Pod, looking, completing, steps):
    pod.write("completing", completing)
    pod.write("steps", steps)
    pod.has("D", pending=KILLED)
    looking.append(pod.looks())
    assert wait_until(lambda: pod.lines("asked"), timeout_s=60, every_s=0.05)
    with pytest.raises(subprocess.TimeoutExpired):
        looking[0].wait(timeout=3)
    assert pod.lines("told") == []


def test_without_a_program_the_node_is_drained_too(pod: Pod, looking):
    pod.write("steps", "8 slurmstepd: [12.0]\n")
    pod.has("D", pending=KILLED)
    looking.append(pod.looks("(null)"))
    assert told(pod, "reason=Kill task failed: job 12 step 0")


def test_a_drain_that_is_there_stays(pod: Pod, looking):
    pod.write("state", "IDLE+COMPLETING+DRAIN")
    pod.has("D", pending=KILLED)
    looking.append(pod.looks())
    assert told(pod, "program 12 4294967291")
