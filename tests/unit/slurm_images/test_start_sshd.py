"""The bounds of people that start-sshd sets, in a container that the runtime has bound."""

from __future__ import annotations

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "slurm-images" / "bin" / "start-sshd"
SITUATION = """\
set -euo pipefail
hold-memory() { :; }
ulimit() { echo "ulimit $*"; return 1; }
SUNKPY_PERSON_MEMORY_MIB=2 SUNKPY_PERSON_PROCESSES=9
eval "$(sed -n '/^# All that people start/,/^host_keys=/p' "$1")"
echo "sshd starts"
"""


def test_a_lower_limit_of_the_container_does_not_keep_sshd_from_starting():
    done = subprocess.run(["bash", "-c", SITUATION, "-", SCRIPT], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["ulimit -d 2048", "ulimit -u 9", "sshd starts"], done.stderr
