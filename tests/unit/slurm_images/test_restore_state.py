"""The state of slurmctld from a backup, while another pod with the same volume starts."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.slurm_images.test_copy_backup import MIB, Volume

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Volume]:
    """A pod of slurmctld with an empty state, and a backup of a state."""
    volume = Volume(tmp_path / "root", MIB)
    (volume.root / "var/lib/slurm/state").mkdir(parents=True)
    with tarfile.open(volume.folder / "state-20260801T034700Z.tar.gz", "w:gz") as archive:
        for name in ("clustername", "job_state", "heartbeat"):
            archive.addfile(tarfile.TarInfo(f"./{name}"), io.BytesIO())
    yield volume
    subprocess.run(["umount", volume.folder], check=True)


def restore(volume: Volume, *, meanwhile: str) -> subprocess.CompletedProcess[str]:
    """Run the script; another pod does `meanwhile` whenever the script has removed something."""
    programs = volume.root / "tmp/programs"
    programs.mkdir()
    (programs / "rm").write_text(f'#!/bin/bash\n/usr/bin/rm "$@"\n{meanwhile}\n')
    (programs / "rm").chmod(0o755)
    return volume.run(script="restore-state", before="export PATH=/tmp/programs:$PATH")


def test_the_state_comes_back_while_another_pod_makes_the_folder(root: Volume):
    """As the init container of the second slurmctld does."""
    done = restore(root, meanwhile="install -d /var/lib/slurm/state")
    assert done.returncode == 0, done.stderr
    slurm = root.root / "var/lib/slurm"
    assert {path.name for path in (slurm / "state").iterdir()} == {"clustername", "job_state"}
    assert {path.name for path in slurm.iterdir()} == {"state"}


def test_a_state_that_another_pod_writes_meanwhile_is_not_mixed_with_the_backup(root: Volume):
    done = restore(root, meanwhile="install -D /dev/null /var/lib/slurm/state/job_state")
    assert done.returncode == 1
    assert "Directory not empty" in done.stderr or "File exists" in done.stderr
    assert {path.name for path in (root.root / "var/lib/slurm/state").iterdir()} == {"job_state"}
