"""The preStop of a slurmd pod, run with a scontrol that tells what it is given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

STOP = Path(__file__).parents[3] / "slurm-images" / "bin" / "stop-slurmd"
SCONTROL = """\
#!/bin/bash
case "$1" in
  show) echo "NodeName=n1 State=$STATE CPUTot=2" ;;
  *) echo "$@" >> "$TOLD" ;;
esac
"""


def stop(folder: Path, state: str) -> list[str]:
    """What Slurm is told when a slurmd pod stops whose node is in this state."""
    told = folder / "told"
    told.touch()
    for name, text in (("scontrol", SCONTROL), ("pgrep", "#!/bin/bash\nexit 1\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "STATE": state, "TOLD": str(told), "SUNKPY_SLURM_NODE": "n1"}
    subprocess.run([STOP], env=env, check=True, timeout=20)
    return told.read_text().splitlines()


@pytest.mark.parametrize("state", ["IDLE", "MIXED+DYNAMIC_NORM", "ALLOCATED+COMPLETING", "IDLE+NOT_RESPONDING"])
def test_a_node_whose_slurmd_stops_takes_no_new_job(tmp_path: Path, state: str):
    assert stop(tmp_path, state) == ["update nodename=n1 state=drain reason=k8s: pod gone"]


@pytest.mark.parametrize("state", ["DOWN+DYNAMIC_NORM", "IDLE+FAIL", "ALLOCATED+FAIL", "IDLE+DRAIN", "DOWN+DRAIN"])
def test_a_node_that_is_closed_keeps_its_reason(tmp_path: Path, state: str):
    assert stop(tmp_path, state) == []
