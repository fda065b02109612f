"""import-image refuses what it cannot do before it downloads anything; real images are in tests/integration/slurm."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "slurm-images" / "bin" / "import-image"
IMAGE = "docker://registry.example.com/ubuntu:24.04"


def run(*words: str, cwd: Path) -> tuple[int, str]:
    done = subprocess.run([SCRIPT, *words], cwd=cwd, capture_output=True, text=True, check=False, timeout=30)
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", [(), (IMAGE,), (IMAGE, "folder", "more")])
def test_it_says_how_it_is_called(words: tuple[str, ...], tmp_path: Path):
    code, said = run(*words, cwd=tmp_path)
    assert (code, said.partition("docker:")[0]) == (2, "usage: import-image ")


def test_a_folder_that_is_there_stays(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").touch()
    assert run(IMAGE, "folder", cwd=tmp_path) == (1, f"import-image: {tmp_path}/folder is there already\n")
    assert (tmp_path / "folder/file").exists()
