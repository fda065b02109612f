"""A slurmd whose Slurm node slurmctld has forgotten, run with a scontrol that says what it is given."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from devcluster.waiting import wait_until

REGISTER_AGAIN = Path(__file__).parents[3] / "slurm-images" / "bin" / "register-again"
SAY = """\
line=$(head -n 1 "$SAYS"); sed -i 1d "$SAYS"
echo "$line"
[[ $line == NodeName=* ]]
"""
SCONTROL = f"#!/bin/bash\n{SAY}"
SLURMD = "trap 'echo registers >> {folder}/told' HUP; echo ready; while :; do sleep 0.02; done"
THERE, MISSING, SILENT = "NodeName=n1 Arch=x86_64", "Node n1 not found", "slurm_load_node error: Unable to contact"


@pytest.mark.parametrize(
    ("says", "times"),
    [
        ([THERE, THERE], 0),
        ([SILENT, THERE, THERE], 0),
        ([MISSING, THERE, THERE], 0),
        ([THERE, SILENT, MISSING, MISSING, THERE, THERE], 1),
        ([*[MISSING] * 6, THERE, THERE], 2),
        ([*[MISSING] * 13, THERE, THERE], 2),
        ([MISSING, SILENT, MISSING, THERE, THERE], 0),
    ],
)
def test_a_node_that_is_missing_twice_registers_again_until_it_is_there_twice(
    tmp_path: Path, says: Sequence[str], times: int
):
    (tmp_path / "scontrol").write_text(SCONTROL)
    (tmp_path / "scontrol").chmod(0o755)
    (tmp_path / "says").write_text("".join(f"{line}\n" for line in says))
    slurmd = subprocess.Popen(
        ["env", "--default-signal=HUP", "bash", "-c", SLURMD.format(folder=tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert slurmd.stdout is not None
        assert slurmd.stdout.readline() == "ready\n"
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SAYS": str(tmp_path / "says")}
        env |= {"SUNKPY_SLURM_NODE": "n1", "SUNKPY_SAVED_S": "0.1"}
        done = subprocess.run([REGISTER_AGAIN, str(slurmd.pid)], env=env, timeout=120, capture_output=True, text=True)
        told = tmp_path / "told"
        registers = lambda: told.read_text().count("registers") if told.exists() else 0  # noqa: E731
        wait_until(lambda: registers() == times, timeout_s=60)
    finally:
        slurmd.kill()
        slurmd.communicate()
    assert (done.returncode, (tmp_path / "says").read_text()) == (0, "")
    assert registers() == times == done.stdout.count("registers again")


LISTED = '{"gpu":["nvidia0 GPU-5c 0000:3b:00.0"],"made":["uid-1","1795219200"]}'


@pytest.mark.parametrize(
    ("says", "updates"),
    [
        ([f"{THERE} Extra={LISTED} ", f"{THERE} Extra={LISTED}"], 0),
        (
            [f"{THERE} Extra={LISTED.replace('uid-1', 'uid-0')}", f"{THERE} Extra={LISTED}", f"{THERE} Extra={LISTED}"],
            1,
        ),
        ([THERE, THERE, f"{THERE} Extra={LISTED}", f"{THERE} Extra={LISTED}"], 2),
        ([SILENT, f"{THERE} Extra={LISTED}", THERE, f"{THERE} Extra={LISTED}", f"{THERE} Extra={LISTED}"], 1),
    ],
)
def test_slurmctld_is_told_of_the_devices_until_it_has_had_them_twice(
    tmp_path: Path, says: Sequence[str], updates: int
):
    (tmp_path / "scontrol").write_text(f'#!/bin/bash\n[ "$1" != update ] || exec echo "$@" >> {tmp_path}/told\n{SAY}')
    (tmp_path / "scontrol").chmod(0o755)
    (tmp_path / "says").write_text("".join(f"{line}\n" for line in says))
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SAYS": str(tmp_path / "says")}
    env |= {"SUNKPY_SLURM_NODE": "n1", "SUNKPY_SAVED_S": "0.1", "SUNKPY_LISTED": LISTED}
    done = subprocess.run([REGISTER_AGAIN, str(os.getpid())], env=env, timeout=120, capture_output=True, text=True)
    told = (tmp_path / "told").read_text().splitlines() if updates else []
    assert (done.returncode, (tmp_path / "says").read_text()) == (0, "")
    line = f"update nodename=n1 extra={LISTED}"
    assert told == [line] * updates == done.stdout.count("gets the present one") * told[:1]


def test_it_ends_with_its_slurmd(tmp_path: Path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    env = {"PATH": os.environ["PATH"], "SUNKPY_SLURM_NODE": "n1", "SUNKPY_SAVED_S": "0"}
    assert subprocess.run([REGISTER_AGAIN, str(gone.pid)], env=env, timeout=20, check=False).returncode == 0
