"""`sunkpy doctor` as an administrator asks it: what a job and a pod show that only run on a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from demo.stack import Stack
from sunkpy.core.overview.checks import Diagnosis, Level

pytestmark = pytest.mark.e2e

OF_CANARIES = {
    "canary job": (Level.OK, "a job ran in "),
    "accounting": (Level.OK, "slurmctld and slurmdbd have job "),
    "canary pod": (Level.OK, "a pod ran in "),
}
IN_THE_POD = {"hooks": (Level.OK, "-hooks:8000 answers")}


def test_a_canary_shows_what_a_job_sees_and_that_slurmdbd_knows_it(stack: Stack) -> None:
    """On a devcluster nothing but variables holds a job to its GPUs: `slurmConfig.cgroup` is disabled there."""
    command = [str(Path(sys.executable).with_name("sunkpy")), "doctor", "--exec", "--canary", "-o", "json"]
    command += ["-n", stack.namespace, "--kubeconfig", str(stack.kubeconfig)]
    path = os.pathsep.join([*([str(stack.bin_dir)] if stack.bin_dir else []), os.environ["PATH"]])
    answer = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    assert not answer.stderr, answer.stderr
    checks = {check.name: check for check in msgspec.json.decode(answer.stdout, type=Diagnosis).checks}
    for name, (level, text) in (OF_CANARIES | IN_THE_POD).items():
        assert (checks[name].level, text in checks[name].found) == (level, True), checks[name]
    devices = checks["devices of a job"]
    opens_all = devices.level is Level.WARNING and "may open device files" in devices.found
    assert devices.level is Level.OK or (opens_all and stack.bin_dir is not None), devices
