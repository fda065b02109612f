"""Processes that outlive SIGKILL, with a real slurmd: while cgroup v1 has them frozen, they wait in the kernel.

slurmstepd of 24.11 has the node drained, that of 26.05 does not, and find-unkillable does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from devcluster.waiting import wait_until
from tests.integration.slurm.daemons import NODE, ONE_SLURMD, RealSlurm

pytestmark = pytest.mark.integration

FREEZER = Path("/sys/fs/cgroup/freezer")
CONF = "UnkillableStepTimeout=6\nUnkillableStepProgram=/usr/local/bin/report-unkillable\n"
FIND = f"SUNKPY_SLURM_NODE={NODE} SUNKPY_PAUSE_S=1 find-unkillable &\n"
"""As start-slurmd does."""
SLEEP = "sleep 4247"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    if os.geteuid() != 0 or not FREEZER.is_dir():
        pytest.skip("needs root and a kernel that freezes processes by cgroup v1")
    machines = msgspec.structs.replace(ONE_SLURMD, conf=ONE_SLURMD.conf + CONF, start=ONE_SLURMD.start + FIND)
    real = RealSlurm(tmp_path_factory.mktemp("unkillable"), os.environ.get("SLURM_SUITE", "trixie"), machines=machines)
    (real.root / "etc/sunkpy/hooks.env").write_text(f"SUNKPY_SLURM_NODE={NODE}\n")
    yield real
    real.stop()


@pytest.fixture
def frozen() -> Iterator[Path]:
    """A cgroup, thawed in the end."""
    folder = FREEZER / f"sunkpy-unkillable-{os.getpid()}"
    folder.mkdir()
    yield folder
    (folder / "freezer.state").write_text("THAWED")
    assert wait_until(lambda: not (folder / "cgroup.procs").read_text(), timeout_s=30, every_s=0.1)
    folder.rmdir()


def _record(slurm: RealSlurm) -> str:
    return slurm.run_as("slurm", "scontrol", "--oneliner", "show", "node", NODE)[1]


def test_the_node_is_drained_and_says_which_processes_wait_where(slurm: RealSlurm, frozen: Path) -> None:
    assert wait_until(lambda: "IDLE" in _record(slurm), timeout_s=60, every_s=0.2), slurm.logs()
    submit = ("sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", f"--wrap=exec {SLEEP}")
    code, job = slurm.run_as("slurm", *submit)
    assert code == 0, job
    assert wait_until(lambda: slurm.running(SLEEP), timeout_s=30, every_s=0.1), slurm.logs()
    (of_job,) = slurm.running(SLEEP)
    (frozen / "cgroup.procs").write_text(str(of_job))
    (frozen / "freezer.state").write_text("FROZEN")
    assert slurm.run_as("slurm", "scancel", job.strip())[0] == 0
    begins = f"Reason=Kill task failed: job {job.strip()} step batch; sleep (pid "
    assert wait_until(lambda: begins in _record(slurm), timeout_s=90, every_s=0.2), _record(slurm)
    assert "DRAIN" in _record(slurm)
    assert f"report-unkillable: {begins.removeprefix('Reason=')}" in (slurm.root / "var/log/slurmd.log").read_text()
