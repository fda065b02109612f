"""The check of a disk: it notices what cannot be written or read, what comes back otherwise, and what is slow."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from devcluster.waiting import wait_until

SCRIPT = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "verify-disk"
DIRECT = "oflag=direct"
CHANGES = """exec /usr/bin/dd "$@" | perl -e 'local $/; $_ = <>; substr $_, 5 * 2**20 + 77, 1, "?"; print'"""
FAULTS = {
    "changed": (CHANGES, "MiB 5 of 8 differs from what was written"),
    "short": ("exec /usr/bin/dd count=3 \"$@\"", "MiB 3 of 8 is missing"),
    "unreadable": ("/usr/bin/dd count=3 \"$@\"; echo 'dd: error reading: Input/output error' >&2; exit 1",
                   "cannot read: dd: error reading: Input/output error"),
}  # fmt: skip
"""What dd does when the program reads."""


def verify(folder: Path, *words: str, path: Path | None = None) -> tuple[int, str]:
    environment = {"PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
    done = subprocess.run(
        [SCRIPT, folder, *words], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.removeprefix(f"verify-disk: {folder}: ").strip()


def replace_dd(folder: Path, text: str) -> Path:
    """Put a dd into a new folder, which does this."""
    folder.mkdir()
    (folder / "dd").write_text(f"#!/bin/bash\n{text}\n")
    (folder / "dd").chmod(0o755)
    return folder


def test_a_disk_that_keeps_what_is_written_passes_and_nothing_is_left(tmp_path: Path) -> None:
    code, said = verify(tmp_path, "8", "1")
    assert code == 0
    assert said.startswith("8 MiB, written with ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_come_back_is_told(tmp_path: Path, fault: str) -> None:
    does, says = FAULTS[fault]
    path = replace_dd(tmp_path / "bin", f'case "$*" in *if=*) ;; *) exec /usr/bin/dd "$@" ;; esac\n{does}')
    (tmp_path / "disk").mkdir()
    assert verify(tmp_path / "disk", "8", path=path) == (1, says)
    assert list((tmp_path / "disk").iterdir()) == []


def test_where_the_file_system_cannot_go_past_the_page_cache_it_does_without(tmp_path: Path) -> None:
    refuses = f'echo "$*" >> {tmp_path}/calls\n[[ $* != *direct* ]] || {{ echo Invalid argument >&2; exit 1; }}\n'
    path = replace_dd(tmp_path / "bin", refuses + 'exec /usr/bin/dd "$@"')
    (tmp_path / "disk").mkdir()
    assert verify(tmp_path / "disk", "8", path=path)[0] == 0
    probe, write, forget, read = (tmp_path / "calls").read_text().splitlines()
    assert (DIRECT in probe, "conv=fsync" in write) == (True, True)
    assert "iflag=nocache count=0" in forget
    assert "if=" in read


def test_a_disk_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    code, said = verify(tmp_path / "none", "8")
    assert code == 1
    assert said == "cannot write: No such file or directory"


def test_what_others_lay_into_the_folder_is_never_written_to(tmp_path: Path) -> None:
    """Who may write there may guess the number of the process, and lay a link where its file would be."""
    disk, victim = tmp_path / "disk", tmp_path / "victim"
    disk.mkdir(mode=0o777)
    victim.write_text("mine")
    for number in range(1, 65536):
        (disk / f".verify-disk-{number}").symlink_to(victim)
    path = replace_dd(tmp_path / "bin", f'stat --format=%a . >> {tmp_path}/modes; exec /usr/bin/dd "$@"')
    assert verify(disk, "1", path=path)[0] == 0
    assert victim.read_text() == "mine"
    assert set((tmp_path / "modes").read_text().split()) == {"700"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts a file system")
def test_a_disk_that_is_full_is_told_and_left_as_it_was(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", tmp_path], check=True)
    try:
        code, said = verify(tmp_path, "8")
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert code == 1
    assert said.endswith("No space left on device")


def test_a_disk_that_is_slower_than_it_should_be_is_told(tmp_path: Path) -> None:
    code, said = verify(tmp_path, "8", "99999999")
    assert code == 1
    assert said.endswith(f"verify-disk: {tmp_path}: fewer than 99999999 MiB/s")


def test_one_that_is_ended_leaves_no_file(tmp_path: Path) -> None:
    """run-services ends a check that takes too long."""
    path = replace_dd(tmp_path / "bin", '[[ $* == *count=0* || $* != *if=* ]] || exec sleep 30\nexec /usr/bin/dd "$@"')
    folder = tmp_path / "disk"
    folder.mkdir()
    environment = {"PATH": f"{path}:{os.environ['PATH']}"}
    with subprocess.Popen([SCRIPT, folder, "8"], env=environment, stdout=subprocess.PIPE) as process:
        assert wait_until(lambda: [each.stat().st_size for each in folder.glob("*/*")] == [8 * 2**20], timeout_s=30)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("words", [(), ("/tmp", "1G"), ("/tmp", "0"), ("/tmp", "00"), ("/tmp", "8", "fast")])
def test_it_wants_a_folder_and_numbers(words: tuple[str, ...]) -> None:
    done = subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert done.stderr == "usage: verify-disk FOLDER [MIB [LEAST]]\n"
