"""The first homes, made as root: those of user1 follow its number."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "slurm-images" / "bin" / "make-homes"
MOUNTED = 'mount --bind "$1/home" /home; mount --bind "$1/passwd" /etc/passwd; shift; exec "$@"'
SQUASHED = ("setpriv", "--bounding-set=-chown,-dac_override,-dac_read_search,-fowner", "--inh-caps=-all")
OF_SSHD = ("setpriv", "--bounding-set=-all,+chown", "--inh-caps=-all")
TOP_FIRST = """\
#!/bin/bash
# As chown of uutils, which Ubuntu has: -R gives a folder away before it reads the folder.
[ "$1" = -R ] || exec /usr/bin/chown "$@"
/usr/bin/chown -h "${@: -2:1}" "${@: -1}" && ls "${@: -1}" > /dev/null && exec /usr/bin/chown "$@"
"""
NOT_MADE = "make-homes: cannot make /home/user1; is /home writable by root?\n"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="homes of several users need root")


def _owners(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path.relative_to(folder)): path.lstat()[4:6] for path in sorted(folder.rglob("*"))}


def _run(folder: Path, *command: object, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "passwd").write_text("root:x:0:0::/root:/bin/sh\nuser1:x:65520:65520::/home/user1:/bin/bash\n")
    run = ["unshare", "--mount", "bash", "-ec", MOUNTED, "-", folder, *command]
    return subprocess.run(run, capture_output=True, text=True, check=False, timeout=30, env={**os.environ, **env})


def _make(folder: Path, *before: str) -> str:
    done = _run(folder, *before, "bash", SCRIPT, "65520")
    assert done.returncode == 0, done.stderr
    return done.stderr


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


def _log_in(folder: Path) -> tuple[int, str]:
    """What PAM sees at a login of user1."""
    done = _run(folder, *SQUASHED, "bash", SCRIPT, PAM_USER="user1", PAM_TYPE="open_session")
    return done.returncode, done.stdout


def test_a_home_is_made_with_no_other_right_than_to_give_files_away(tmp_path: Path):
    (tmp_path / "home").mkdir()
    chown = tmp_path / "bin/chown"
    chown.parent.mkdir()
    chown.write_text(TOP_FIRST)
    chown.chmod(0o755)
    path = f"{chown.parent}:{os.environ['PATH']}"
    done = _run(tmp_path, *OF_SSHD, "bash", SCRIPT, PAM_USER="user1", PAM_TYPE="open_session", PATH=path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    owners = _owners(tmp_path / "home")
    assert owners["user1"] == (65520, 65520)
    assert set(owners.values()) == {(65520, 65520)}
    assert not [name for name in owners if name.startswith(".new-home")]


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """The folder of homes as root sees it behind `root_squash`: it belongs to somebody else, and root has no rights."""
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    os.chown(home, 65534, 65534)
    return home


def test_behind_root_squash_no_home_is_made_and_the_login_is_refused_with_the_reason(tmp_path: Path, export: Path):
    assert NOT_MADE in _make(tmp_path, *SQUASHED), "the login pod starts, for other people may have a home"
    assert _log_in(tmp_path) == (1, NOT_MADE)
    assert list(export.iterdir()) == []


def test_behind_root_squash_a_home_that_was_made_on_the_server_is_entered(tmp_path: Path, export: Path):
    (export / "user1").mkdir(mode=0o700)
    os.chown(export / "user1", 65520, 65520)
    assert "/home/user1" not in _make(tmp_path, *SQUASHED)
    assert _log_in(tmp_path) == (0, "")
