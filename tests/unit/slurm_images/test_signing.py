"""What is missing to sign is said before anything is pushed; what is pushed is signed; a build waits for another."""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from devcluster.waiting import wait_until
from tests.unit.slurm_images.test_build import build


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A key whose password is known, and a program cosign."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COSIGN_PASSWORD", "")
    for name in ("cosign", "cosign.key"):
        (tmp_path / name).touch(mode=0o755)
    return str(tmp_path / "cosign.key")


def test_a_key_with_a_password_that_may_be_empty_signs(key):
    assert build.obstacle(key) == ""


def test_without_cosign_nothing_signs(key, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    for each in ("", key):
        assert build.obstacle(each) == "to sign takes cosign on the PATH: https://docs.sigstore.dev/cosign"


def test_a_key_that_is_not_there_is_named(key):
    assert build.obstacle("site.key").startswith("there is no key site.key: `cosign generate-key-pair`")


@pytest.mark.parametrize("elsewhere", ["", "awskms:///alias/release", "pkcs11:token=release"])
def test_only_a_file_needs_a_password(key, monkeypatch, elsewhere):
    monkeypatch.delenv("COSIGN_PASSWORD")
    assert build.obstacle(key).endswith("cosign.key into the environment variable COSIGN_PASSWORD; it may be empty")
    assert build.obstacle(elsewhere) == ""


def test_nothing_is_pushed_that_cannot_be_signed(key, monkeypatch):
    monkeypatch.delenv("COSIGN_PASSWORD")
    with pytest.raises(build.CannotBuild, match="COSIGN_PASSWORD"):
        build.push({"slurmd": {"ref": "never/read:1"}}, "r.example.com", key=key)


PROGRAM = """\
#!/bin/sh
echo "${0##*/} $*" >> "${0%/*}/calls"
for word; do case $word in --digestfile=*) echo sha256:12ab > "${word#*=}" ;; esac; done
"""


class Checkout:
    """The program in a folder of its own, where the image of MariaDB is made already; buildah and cosign note calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.copytree(build.HERE, folder / "slurm-images")
        self.lock = folder / "cache/images/build.lock"
        group = build.mariadb_group()
        archive = folder / "cache/images/archives" / group.archive.name
        archive.parent.mkdir(parents=True)
        manifest = json.dumps([{"RepoTags": [group.ref("mariadb")]}]).encode()
        with tarfile.open(archive, "w") as tar:
            info = tarfile.TarInfo("manifest.json")
            info.size = len(manifest)
            tar.addfile(info, io.BytesIO(manifest))
        for name in ("buildah", "cosign"):
            (folder / name).write_text(PROGRAM)
            (folder / name).chmod(0o755)
        (folder / "cosign.key").touch()

    def push(self, *options: str) -> subprocess.Popen[str]:
        """Start to push the image of MariaDB."""
        program = str(self._folder / "slurm-images/build")
        words = ("--only", "mariadb", "--push", "r.example.com/site", *options)
        env = {"PATH": f"{self._folder}:{os.environ['PATH']}", "COSIGN_PASSWORD": ""}
        env["SUNKPY_CACHE"] = str(self._folder / "cache")
        return subprocess.Popen([sys.executable, program, *words], env=env, stdout=subprocess.PIPE, text=True)

    @property
    def key(self) -> str:
        """A file with a key."""
        return str(self._folder / "cosign.key")

    @property
    def calls(self) -> list[list[str]]:
        """The words with which buildah and cosign were called."""
        path = self._folder / "calls"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_what_is_pushed_is_signed_by_the_key_of_the_command_line(checkout: Checkout):
    for options in ((), ("--sign", checkout.key)):
        with checkout.push(*options) as process:
            said, _ = process.communicate(timeout=60)
        (pinned,) = [line.split()[1] for line in said.splitlines() if line.startswith("  mariadb: ")]
        signed = [call for call in checkout.calls if call[0] == "cosign"]
        assert signed == ([["cosign", "sign", "--yes", "--key", checkout.key, pinned]] if options else [])


def test_one_build_waits_for_another(checkout: Checkout):
    checkout.lock.touch()
    with checkout.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = checkout.push()
        assert wait_until(lambda: _waits_for_a_lock(process.pid), timeout_s=30, every_s=0.05)
        assert checkout.calls == []
    with process:
        said, _ = process.communicate(timeout=60)
    assert said.startswith("images: waiting for another build\n")
    assert (process.returncode, {call[0] for call in checkout.calls}) == (0, {"buildah"})


def _waits_for_a_lock(pid: int) -> bool:
    """True if the process waits for a lock on a whole file, as the kernel lists it."""
    waiting = (line.split() for line in Path("/proc/locks").read_text().splitlines() if "-> FLOCK" in line)
    return str(pid) in (words[5] for words in waiting)
