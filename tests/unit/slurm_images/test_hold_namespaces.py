"""What Slurm does for each job with a /tmp of its own, in mount namespaces of this kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pytest

SCRIPT: Final = Path(__file__).parents[3] / "slurm-images" / "bin" / "hold-namespaces"
CPUS: Final = sorted(os.sched_getaffinity(0))
HOLD: Final = """\
mount -t tmpfs tmpfs "$1" && mount --make-private "$1" && : > "$1/held"
for cpu in "${@:2}"; do taskset -c "$cpu" unshare --mount="$1/held" true && echo "$cpu" && umount "$1/held"; done
grep -c hold-namespaces /proc/self/mountinfo
env | grep -c SUNKPY_MOVED
taskset -cp $$ | grep -o '[^ ]*$'
"""


OWN_RUN: Final = ("sh", "-c", 'mount -t tmpfs tmpfs /run && exec "$@"', "-")
"""As a container has it: the script leaves its folder there."""


def said(*argv: str) -> list[str]:
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout.splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root")
@pytest.mark.parametrize("first", CPUS)
def test_a_job_of_any_cpu_gets_its_tmp_wherever_its_slurmd_began(first: int, tmp_path: Path):
    cpus = [str(cpu) for cpu in CPUS]
    all_cpus = said("taskset", "-cp", str(os.getpid()))[0].split()[-1]
    begun = ["taskset", "-c", str(first), "unshare", "--mount", *OWN_RUN, "taskset", "-c", all_cpus]
    assert said(*begun, str(SCRIPT), "bash", "-c", HOLD, "-", str(tmp_path), *cpus) == [*cpus, "0", "0", all_cpus]


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_the_program_runs_where_nothing_may_be_mounted():
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    with tempfile.TemporaryDirectory() as folder:  # others may not enter every folder that a checkout is in
        program = shutil.copy(SCRIPT, folder)
        for path in (folder, program):
            os.chmod(path, 0o755)
        assert said(*nobody, program, "printf", "%s\\n", "a b", "c") == ["a b", "c"]
