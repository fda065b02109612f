"""How a job ended, in words."""

from __future__ import annotations

import pytest

from sunkpy.core.overview.how_ended import HELD, how_ended, why_held
from tests.unit.core.overview.test_job import job

NAMES = {"job": "7", "partition": "low", "node": "n1"}


@pytest.mark.parametrize(
    ("state", "fields", "because", "command"),
    [
        ("COMPLETED", {}, "its script ended with 0", "Nothing."),
        ("CANCELLED", {"signal": 15}, "somebody or Slurm cancelled it", "sacct -j 7 -o JobID,State%40"),
        ("TIMEOUT", {"signal": 1}, "it reached its time limit", "scontrol show partition low"),
        ("OUT_OF_MEMORY", {"signal": 125}, "more memory than it had asked for", "sacct -j 7 -o JobID,MaxRSS,ReqMem"),
        ("NODE_FAIL", {}, "one of its nodes failed", "kubectl sunk history n1"),
        ("BOOT_FAIL", {}, "one of its nodes did not boot", "kubectl sunk history n1"),
        ("DEADLINE", {}, "before its deadline", "--deadline or less --time."),
        ("FAILED", {"exit_code": 2}, "its script ended with 2", "sacct -j 7 -o JobID,State,ExitCode,NodeList"),
        ("FAILED", {"exit_code": 126}, "is not executable", "chmod +x FILE"),
        ("FAILED", {"exit_code": 127}, "was not found", "write its whole path."),
        (
            "FAILED",
            {"exit_code": 137},
            "killed (signal 9), mostly because it needed too much memory",
            "-o JobID,MaxRSS,ReqMem",
        ),
        (
            "FAILED",
            {"signal": 9},
            "killed (signal 9), mostly because it needed too much memory",
            "-o JobID,MaxRSS,ReqMem",
        ),
        ("FAILED", {"exit_code": 139}, "crashed (signal 11)", "-o JobID,State,ExitCode,NodeList"),
        ("FAILED", {"signal": 7}, "/dev/shm or a disk may be full", "df -h /dev/shm /tmp"),
        ("FAILED", {"signal": 53}, "output, error or input file could not be opened", "scontrol show job 7"),
        ("FAILED", {"signal": 52}, "its script could not be executed", "scontrol show job 7"),
        ("FAILED", {"signal": 30}, "signal 30 ended its script", "-o JobID,State,ExitCode,NodeList"),
        ("FAILED", {"exit_code": 200}, "its script ended with 200", "-o JobID,State,ExitCode,NodeList"),
        ("FAILED", {"reason": "JobLaunchFailure"}, "could not be started on its node", "kubectl sunk history n1"),
        ("FAILED", {}, "", "To see how it ended: sacct -j 7"),
    ],
)
def test_the_end_of_a_job_is_told_with_a_command(state, fields, because, command):
    told = how_ended(job(7, state, **fields))
    assert because in told.because
    assert told.what_to_do.format(**NAMES).endswith(command)


@pytest.mark.parametrize("said", HELD)
def test_what_slurm_queued_again_and_holds_is_told_with_what_releases_it(said):
    told = why_held(job(7, "PENDING", reason="JobHeldUser", said=said))
    assert told is not None
    assert told.what_to_do.format(**NAMES).endswith("scontrol release 7")


def test_a_job_that_its_owner_holds_was_not_queued_again():
    assert why_held(job(7, "PENDING", reason="JobHeldUser")) is None
