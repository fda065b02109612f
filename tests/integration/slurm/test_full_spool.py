"""A disk of slurmd that is full: Slurm drains the node, and once there is room again it takes jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from devcluster.waiting import wait_until
from tests.integration.slurm.daemons import NODE, ONE_SLURMD, RealSlurm

pytestmark = pytest.mark.integration

SPOOL = "/var/spool/slurmd"
START = f"""\
mount -t tmpfs -o size=2m,mode=755 tmpfs {SPOOL}
SUNKPY_SLURM_NODE={NODE} SUNKPY_PAUSE_S=1 reopen-full >> /var/log/reopen-full.log 2>&1 &
"""
"""As start-slurmd does."""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    machines = msgspec.structs.replace(ONE_SLURMD, start=START + ONE_SLURMD.start)
    real = RealSlurm(tmp_path_factory.mktemp("full"), os.environ.get("SLURM_SUITE", "trixie"), machines=machines)
    yield real
    real.stop()


def _record(slurm: RealSlurm) -> str:
    return slurm.run_as("slurm", "scontrol", "--oneliner", "show", "node", NODE)[1]


def _submit(slurm: RealSlurm) -> str:
    code, job = slurm.run_as("slurm", "sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", "--wrap=true")
    assert code == 0, job
    return job.strip()


def test_its_drain_goes_with_its_cause(slurm: RealSlurm) -> None:
    assert wait_until(lambda: " State=IDLE" in _record(slurm), timeout_s=60, every_s=0.2), slurm.logs()
    (slurmd,) = slurm.running("/usr/sbin/slurmd .*")
    big = Path(f"/proc/{slurmd}/root{SPOOL}/big")
    with pytest.raises(OSError, match="No space left"):
        big.write_bytes(bytes(4 << 20))
    _submit(slurm)
    drained = lambda: "DRAIN" in _record(slurm) and "Reason=SlurmdSpoolDir is full [root@" in _record(slurm)  # noqa: E731
    assert wait_until(drained, timeout_s=60, every_s=0.2), _record(slurm) + slurm.logs()
    big.unlink()
    assert wait_until(lambda: "DRAIN" not in _record(slurm), timeout_s=60, every_s=0.2), _record(slurm)
    job = _submit(slurm)
    ended = lambda: "JobState=COMPLETED" in slurm.run_as("slurm", "scontrol", "show", "job", job)[1]  # noqa: E731
    assert wait_until(ended, timeout_s=60, every_s=0.2), slurm.logs()
    assert "has room again" in (slurm.root / "var/log/reopen-full.log").read_text()
