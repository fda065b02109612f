"""The bounds of people that start-sshd sets, in a container that the runtime has bound."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(("port", "option"), [("", ""), ("2022", "-p 2022 ")])
def test_sshd_listens_where_it_is_told_in_place_of_its_configuration(port: str, option: str):
    """With a port on the command line, sshd ignores the ports of its configuration (sshd(8))."""
    (line,) = [line for line in SCRIPT.read_text().splitlines() if "/usr/sbin/sshd -D" in line]
    shell = f"host_keys=(-h /key); {line.replace('/usr/sbin/sshd', 'echo').rstrip(' &')}"
    env = {**os.environ, "SUNKPY_SSH_PORT": port}
    done = subprocess.run(["bash", "-uc", shell], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"-D -e -f /run/sshd_config {option}-h /key\n"
