"""What start-slurmctld does beside slurmctld, with a scontrol that fails."""

from __future__ import annotations

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "slurm-images" / "bin" / "start-slurmctld"
SITUATION = """\
scontrol() { tried=$((tried + 1)); [ "$tried" -gt 4 ]; }
sleep() { echo "$1"; }
set -euo pipefail
tried=0
source <(sed -n '/^tell_nodes()/,/^}/p' "$1")
tell_nodes
echo "told at try $tried"
"""


def test_a_reconfigure_that_gives_up_is_repeated_ever_later():
    done = subprocess.run(["bash", "-c", SITUATION, "-", SCRIPT], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["30", "60", "120", "240", "told at try 5"], done.stderr
