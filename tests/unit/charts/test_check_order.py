"""Containers of one pod refuse releases of Slurm that do not go together."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = (Path(__file__).parents[3] / "charts/slurm/files/check-order.sh").read_text()


def start(folder: Path, own: str, *words: str, package: str = "slurm-client") -> tuple[int, str]:
    """Exit code and output of a container whose image has this Slurm; empty: the image has no such package."""
    query = folder / "dpkg-query"
    found = f'[ "$each" != {package} ] || printf %s {own}' if own else ":"
    query.write_text(f"#!/bin/sh\nfor each; do {found}; done\nexit 1\n")
    query.chmod(0o755)
    argv = ["bash", "-euc", SCRIPT.replace("/order", str(folder)), "-", *words]
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("first", "own", "is_refused"),
    [
        ("24.11.5-4", "24.11.5-4", False),
        ("26.05.1-1", "24.11.5-4", False),
        ("24.11.5-4", "26.05.1-1", True),
        ("24.11.5-4", "24.11.6-1", False),
        ("", "26.05.1-1", False),
        ("24.11.5-4", "", False),
    ],
)
@pytest.mark.parametrize("package", ["slurm-client", "slurm-from-source"])
def test_what_is_asked_of_others_is_not_later_than_they_are(tmp_path, first, own, is_refused, package):
    assert start(tmp_path, first, "slurmdbd", "") == (0, "")
    refusal = (
        "images.slurmctld is Slurm 26.05.1, but images.slurmdbd is only 24.11.5: images.slurmdbd must not be older "
        "than images.slurmctld. Upgrade images.slurmdbd first, or both together: docs/tasks/upgrade.md\n"
    )
    expected = (3, refusal) if is_refused else (0, "starts\n")
    assert start(tmp_path, own, "slurmctld", "slurmdbd", "echo", "starts", package=package) == expected
