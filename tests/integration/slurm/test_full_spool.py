"""A disk of slurmd that is full: Slurm drains the node, and opens it once there is room, unless a person drained it."""

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
mount -t tmpfs -o size=32m,mode=755 tmpfs {SPOOL}
mkdir /var/tmp/bin && printf '#!/bin/bash\necho >> /var/tmp/pauses\nexec /usr/bin/sleep "$@"\n' > /var/tmp/bin/sleep
chmod +x /var/tmp/bin/sleep
SUNKPY_SLURM_NODE={NODE} SUNKPY_PAUSE_S=1 PATH=/var/tmp/bin:$PATH reopen-full >> /var/log/reopen-full.log 2>&1 &
"""
"""As start-slurmd does; its pauses are counted."""


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


def _is_drained(slurm: RealSlurm, reason: str) -> bool:
    record = _record(slurm)
    return "DRAIN" in record and f"Reason={reason} [" in record


def _looks_again(slurm: RealSlurm) -> None:
    """reopen-full has seen the node as it is now, more often than it would take to open it."""
    pauses = slurm.root / "var/tmp/pauses"
    enough = len(pauses.read_text()) + 5
    assert wait_until(lambda: len(pauses.read_text()) >= enough, timeout_s=120, every_s=0.2), slurm.logs()


def _fill(slurm: RealSlurm) -> Path:
    assert wait_until(lambda: " State=IDLE" in _record(slurm), timeout_s=60, every_s=0.2), slurm.logs()
    (slurmd,) = slurm.running("/usr/sbin/slurmd .*")
    big = Path(f"/proc/{slurmd}/root{SPOOL}/big")
    with pytest.raises(OSError, match="No space left"):
        big.write_bytes(bytes(40 << 20))
    _looks_again(slurm)
    return big


def test_its_drain_goes_with_its_cause(slurm: RealSlurm) -> None:
    big = _fill(slurm)
    _submit(slurm)
    full = lambda: _is_drained(slurm, "SlurmdSpoolDir is full")  # noqa: E731
    assert wait_until(full, timeout_s=60, every_s=0.2), _record(slurm) + slurm.logs()
    _looks_again(slurm)
    big.unlink()
    assert wait_until(lambda: "DRAIN" not in _record(slurm), timeout_s=60, every_s=0.2), _record(slurm)
    job = _submit(slurm)
    ended = lambda: "JobState=COMPLETED" in slurm.run_as("slurm", "scontrol", "show", "job", job)[1]  # noqa: E731
    assert wait_until(ended, timeout_s=60, every_s=0.2), slurm.logs()
    assert "has room again" in (slurm.root / "var/log/reopen-full.log").read_text()


def test_a_drain_of_a_person_stays(slurm: RealSlurm) -> None:
    big = _fill(slurm)
    update = ("scontrol", "update", f"nodename={NODE}", "state=drain")
    assert slurm.run_as("slurm", *update, "reason=bad DIMM")[0] == 0
    _looks_again(slurm)
    # What slurmd says when it cannot write the script of a job that had begun before the person's drain.
    assert slurm.run_as("root", *update, "reason=SlurmdSpoolDir is full")[0] == 0
    assert "Reason=SlurmdSpoolDir is full [root@" in _record(slurm)
    _looks_again(slurm)
    big.unlink()
    _looks_again(slurm)
    assert _is_drained(slurm, "SlurmdSpoolDir is full"), _record(slurm)
