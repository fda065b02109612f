"""What a slurmd does before it starts, run with a squeue and a scontrol that tell what they are given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

REQUEUE_LOST = Path(__file__).parents[3] / "slurm-images" / "bin" / "requeue-lost"
SCONTROL = """\
#!/bin/bash
[ "$2" != 8 ] || exit 1 # submitted with --no-requeue
echo "$@" >> "$TOLD"
"""


def requeue_lost(folder: Path, squeue: str) -> tuple[list[str], str]:
    """What Slurm is told, and what is said, when these jobs run on the node."""
    told = folder / "told"
    told.touch()
    for name, text in (("scontrol", SCONTROL), ("squeue", f"#!/bin/bash\n{squeue}\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "TOLD": str(told), "SUNKPY_SLURM_NODE": "n1"}
    run = subprocess.run([REQUEUE_LOST], env=env, check=True, timeout=20, capture_output=True, text=True)
    return told.read_text().splitlines(), run.stdout


def test_jobs_whose_script_ran_here_are_requeued_where_they_may_be(tmp_path: Path):
    told, said = requeue_lost(tmp_path, "printf '7 n1\\n8 n1\\n9 n2\\n10 n1\\n'")
    assert told == ["requeue 7", "requeue 10"]
    assert "job 7" in said
    assert "job 8" not in said


def test_a_slurmctld_that_does_not_answer_does_not_keep_slurmd_from_starting(tmp_path: Path):
    assert requeue_lost(tmp_path, "exit 1") == ([], "")
