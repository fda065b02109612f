"""How run-container reads the line that Slurm gives to a shell."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "slurm-images" / "bin" / "run-container"
READS = """\
set -euo pipefail
source <(sed -n '/^quoted()/,/^}/p' "$1")
eval "set -- $(quoted)"
printf '%s\\n' "$@"
"""
ARGUMENTS = ("bash", "-c", "echo 'x'", "'", '"', "# task: '")


def as_slurm_quotes(word: str, after_each_quote: str = "") -> str:
    """The word between quotes; each quote in it ends the text, stands between others, and begins it again."""
    inner = word.replace("'", "'\"'\"'" + after_each_quote)
    return f"'{inner}'"


@pytest.mark.parametrize("package", ["slurm-client", "slurm-from-source"])
@pytest.mark.parametrize(
    ("version", "more"),
    [("24.11.5", "'"), ("25.11.7", "'"), ("26.05.3", "'"), ("26.05.5", ""), ("26.11.0", "")],
)
def test_quotes_in_arguments_arrive_as_they_are(tmp_path: Path, package: str, version: str, more: str):
    """Slurm before 26.05.5 writes one quote too many, in Debian's package as in one that was compiled."""
    query = tmp_path / "dpkg-query"
    query.write_text(f'#!/bin/sh\nfor each; do [ "$each" != {package} ] || printf %s {version}-1; done\nexit 1\n')
    query.chmod(0o755)
    line = " ".join(as_slurm_quotes(each, more) for each in ARGUMENTS)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TASK": f"/bin/sh # task: {line}"}
    done = subprocess.run(["bash", "-c", READS, "-", SCRIPT], env=env, capture_output=True, text=True, check=False)
    assert (done.stdout.splitlines(), done.stderr) == (list(ARGUMENTS), "")
