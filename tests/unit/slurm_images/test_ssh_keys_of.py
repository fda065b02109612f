"""Whose keys sshd asks for: a name of a user is no path."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "ssh-keys-of"
HOSTILE = ("../passwd", "..", "a/../b", "/etc/passwd", "a\n../b", "$(id)", "`id`", "a;id", "-n", "*", "A", " ")


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_name_has_no_keys(name: str):
    done = subprocess.run(["bash", SCRIPT, name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
