"""The preStop of a slurmd pod, run with a scontrol that tells what it is given."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

STOP = Path(__file__).parents[3] / "slurm-images" / "bin" / "stop-slurmd"
SCONTROL = """\
#!/bin/bash
case "$1" in
  show) echo "NodeName=n1 State=$STATE CPUTot=2" ;;
  *) echo "$@" >> "$TOLD" ;;
esac
"""


# What is running is what the file says; each look takes its first line away, as if that step had ended.
PGREP = """\
#!/bin/bash
[ -s "$STEPS" ] || exit 1
echo look >> "$LOOKS"
cat "$STEPS"
[ -n "$STAYS" ] || sed -i 1d "$STEPS"
"""


def stop(folder: Path, state: str, *, steps: Sequence[str] = (), stays: bool = False) -> tuple[list[str], int]:
    """Stop a slurmd pod whose node is in this state. Return the commands to Slurm, and how often steps were listed."""
    told, looks, running = folder / "told", folder / "looks", folder / "steps"
    for file in (told, looks):
        file.touch()
    running.write_text("".join(f"{41 + number} {step}\n" for number, step in enumerate(steps)))
    for name, text in (("scontrol", SCONTROL), ("pgrep", PGREP)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    env = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "STATE": state,
        "TOLD": str(told),
        "LOOKS": str(looks),
        "STEPS": str(running),
        "STAYS": "yes" if stays else "",
        "SUNKPY_SLURM_NODE": "n1",
    }
    subprocess.run([STOP], env=env, check=True, timeout=20)
    return told.read_text().splitlines(), len(looks.read_text().splitlines())


@pytest.mark.parametrize("state", ["IDLE", "MIXED+DYNAMIC_NORM", "ALLOCATED+COMPLETING", "IDLE+NOT_RESPONDING"])
def test_a_node_whose_slurmd_stops_takes_no_new_job(tmp_path: Path, state: str):
    assert stop(tmp_path, state) == (["update nodename=n1 state=drain reason=k8s: pod gone"], 0)


@pytest.mark.parametrize("state", ["DOWN+DYNAMIC_NORM", "IDLE+FAIL", "ALLOCATED+FAIL", "IDLE+DRAIN", "DOWN+DRAIN"])
def test_a_node_that_is_closed_keeps_its_reason(tmp_path: Path, state: str):
    assert stop(tmp_path, state) == ([], 0)


@pytest.mark.parametrize("step", ["slurmstepd: [8.batch]", "slurmstepd: [8.0]", "/usr/sbin/slurmstepd"])
def test_what_runs_may_end(tmp_path: Path, step: str):
    _, looks = stop(tmp_path, "MIXED+DRAIN", steps=[step, step])
    assert looks == 2


@pytest.mark.parametrize(
    "step",
    ["slurmstepd: [8.extern]", "slurmstepd: [8.extern stepmgr]", "/usr/sbin/slurmstepd infinity"],
)
def test_nobody_waits_for_what_runs_nothing(tmp_path: Path, step: str):
    """The external step of a service is there for weeks: a roll that passes under it would use up the grace period."""
    assert stop(tmp_path, "MIXED+DRAIN", steps=[step], stays=True) == ([], 1)
