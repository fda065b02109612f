"""weigh-users writes whose jobs have more than a quarter of slurmctld's volume, once that is half full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devcluster.waiting import wait_until

SCRIPT = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "weigh-users"
SQUEUE = "--noheader --all --states=all --format=%A %F %U"
JOBS = "101 101 2001\n103 102 2002\n104 104 2003\n"
"""Job 103 is a task of array 102, whose other tasks have ended."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """slurmctld's volume with three jobs, a df and a squeue that say what the files `df` and `jobs` have."""
    for job, script, environment in ((101, 500, 4_000_000_000), (102, 10, 200), (104, 0, 10), (99, 0, 9_000_000_000)):
        own = tmp_path / f"state/hash.{job % 10}/job.{job}"
        own.mkdir(parents=True)
        for name, size in (("script", script), ("environment", environment)):
            with (own / name).open("wb") as file:
                file.truncate(size)
    (tmp_path / "jobs").write_text(JOBS)
    for name, text in (("df", "cat df"), ("squeue", f"echo asked >> asked; [ \"$*\" = '{SQUEUE}' ] && cat jobs")):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/bash\ncd {tmp_path}\n{text}\n")
        program.chmod(0o755)
    return tmp_path


@contextmanager
def weighed(folder: Path, *, size: int, free: int) -> Iterator[Path]:
    """The file, while the script runs."""
    (folder / "df").write_text(f"1B-blocks Avail\n{size} {free}\n")
    env = {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
    with subprocess.Popen([SCRIPT, folder / "state", folder / "heavy", "0"], env=env) as process:
        try:
            assert wait_until((folder / "heavy").exists, timeout_s=20, every_s=0.05)
            yield folder / "heavy"
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("size", "free", "heavy"),
    [
        (16_000_000_000, 8_000_000_000, "2001 4000000500\n"),
        (16_000_002_000, 8_000_000_000, "\n"),
        (800, 400, "2001 4000000500\n2002 210\n"),
        (16_000_000_000, 8_000_000_001, "\n"),
    ],
)
def test_who_has_more_than_a_quarter_of_a_volume_that_is_half_full_is_written(
    folder: Path, size: int, free: int, heavy: str
):
    """Files of a job that slurmctld has forgotten, as of 99, do not count."""
    with weighed(folder, size=size, free=free) as file:
        assert file.read_text() == heavy


def test_slurmctld_is_not_asked_before_the_volume_is_half_full(folder: Path):
    with weighed(folder, size=100, free=51):
        assert not (folder / "asked").exists()


def test_what_was_written_stays_while_slurmctld_does_not_answer_and_goes_with_the_jobs(folder: Path):
    with weighed(folder, size=800, free=400) as file:
        jobs = folder / "jobs"
        jobs.rename(folder / "away")
        seen = len((folder / "asked").read_text())
        assert wait_until(lambda: len((folder / "asked").read_text()) > seen + 20, timeout_s=20, every_s=0.05)
        assert file.read_text() == "2001 4000000500\n2002 210\n"
        (folder / "jobs.new").write_text("104 104 2003\n")
        (folder / "jobs.new").rename(jobs)
        assert wait_until(lambda: file.read_text() == "\n", timeout_s=20, every_s=0.05)
