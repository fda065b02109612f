"""The first homes, made as root: those of user1 follow its number."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "slurm-images" / "bin" / "make-homes"
MOUNTED = 'mount --bind "$1/home" /home; mount --bind "$1/passwd" /etc/passwd; exec bash "$2" 65520'

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="homes of several users need root")


def _owners(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path.relative_to(folder)): path.lstat()[4:6] for path in sorted(folder.rglob("*"))}


def _make(folder: Path) -> str:
    (folder / "passwd").write_text("root:x:0:0::/root:/bin/sh\nuser1:x:65520:65520::/home/user1:/bin/bash\n")
    run = ["unshare", "--mount", "bash", "-ec", MOUNTED, "-", folder, SCRIPT]
    return subprocess.run(run, capture_output=True, text=True, check=True, timeout=30).stderr


def test_what_user1_had_under_its_old_number_is_given_to_it(tmp_path: Path):
    home = tmp_path / "home"
    (home / "user1" / "work").mkdir(parents=True)
    (home / "alice").mkdir()
    for name, owner in (("user1", 1001), ("user1/work", 1001), ("alice", 1001)):
        os.chown(home / name, owner, owner)
    (home / "user1" / "of-root").touch()
    (home / "user1" / "alice").symlink_to(home / "alice")
    os.lchown(home / "user1" / "alice", 1001, 1001)
    assert "giving what is in /home/user1 to uid 65520" in _make(tmp_path)
    assert _owners(home) == {
        "alice": (1001, 1001),
        "user1": (65520, 65520),
        "user1/alice": (65520, 65520),
        "user1/of-root": (0, 0),
        "user1/work": (65520, 65520),
    }
    assert _make(tmp_path) == ""


def test_a_missing_home_is_made(tmp_path: Path):
    (tmp_path / "home").mkdir()
    assert "making /home/user1 for user1" in _make(tmp_path)
    assert _owners(tmp_path / "home")["user1"] == (65520, 65520)
