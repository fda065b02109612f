"""reopen-full: a node that Slurm drained for a full disk comes back when there is room; no other drain is touched."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.waiting import wait_until

SCRIPT = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "reopen-full"
FULL = "SlurmdSpoolDir is full [root@2026-01-01T00:00:00]"
SCONTROL = """\
#!/bin/bash
case $* in
  *show*)
    echo asked >> asked
    [ ! -e away ] || exit 1
    echo "NodeName=n State=$(< state) ThreadsPerCore=1 Reason=$(< reason)" ;;
  *) echo "$*" >> writes && echo IDLE > state && echo none > reason ;;
esac
"""
DF = """\
#!/bin/bash
echo "${*: -1}" >> looks
printf 'Use%% IUse%%\\n%s\\n' "$(< df.says)"
"""


class Pod:
    """A slurmd pod whose disk is looked at, and the Slurm node of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name, text in {"scontrol": SCONTROL, "df": DF}.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        self.disk("40%   3%")
        self.slurm("IDLE+DRAIN", FULL)

    def start(self, *, ask_each: int = 1000) -> subprocess.Popen[bytes]:
        """It is looked at, for ever."""
        env = {
            **os.environ, "SUNKPY_SLURM_NODE": "n", "SUNKPY_PAUSE_S": "0.05", "SUNKPY_ASK_EACH": str(ask_each),
            "PATH": f"{self._folder}:{os.environ['PATH']}",
        }  # fmt: skip
        return subprocess.Popen([SCRIPT], env=env, cwd=self._folder, stdout=subprocess.PIPE)

    def disk(self, used: str) -> None:
        """So full it is, by bytes and inodes."""
        (self._folder / "new").write_text(used)
        (self._folder / "new").rename(self._folder / "df.says")

    def slurm(self, state: str, reason: str) -> None:
        """So the node is."""
        (self._folder / "state").write_text(state)
        (self._folder / "reason").write_text(reason)

    def slurmctld_is_away(self, is_away: bool) -> None:
        """It does not answer."""
        if is_away:
            (self._folder / "away").touch()
        else:
            (self._folder / "away").unlink()

    def lines(self, name: str) -> list[str]:
        """What a program was told."""
        file = self._folder / name
        return file.read_text().splitlines() if file.exists() else []

    def looks_again(self, times: int = 4) -> None:
        """The disk has been looked at so often since."""
        before = len(self.lines("looks"))
        assert wait_until(lambda: len(self.lines("looks")) >= before + times, timeout_s=30, every_s=0.02)

    def is_open(self) -> bool:
        """Its drain was lifted."""
        return bool(wait_until(lambda: self.lines("writes"), timeout_s=10, every_s=0.02))


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


@pytest.fixture
def looking() -> Iterator[list[subprocess.Popen[bytes]]]:
    """What looks, ended in the end."""
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for each in found:
        each.kill()
        each.communicate()


@pytest.mark.parametrize("full", ["100%  3%", "96%   -", "40% 100%"])
def test_the_drain_is_lifted_once_there_is_room(pod: Pod, looking: list[subprocess.Popen[bytes]], full: str) -> None:
    pod.disk(full)
    looking.append(pod.start())
    pod.looks_again()
    assert (pod.lines("asked"), pod.lines("writes")) == ([], [])
    pod.disk("60%   -")
    assert pod.is_open()
    assert pod.lines("writes") == ["update nodename=n state=undrain reason= "]
    assert set(pod.lines("looks")) == {"/var/spool/slurmd"}
    stdout = looking[0].stdout
    assert stdout is not None
    assert stdout.readline().decode() == (
        "start-slurmd: /var/spool/slurmd has room again, so the drain of n that Slurm set when it was full is lifted\n"
    )


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("IDLE", "none"),
        ("IDLE+DRAIN", "SlurmdSpoolDir is full [slurm@2026-01-01T00:00:00]"),
        ("IDLE+DRAIN", "the disk: SlurmdSpoolDir is full [root@2026-01-01T00:00:00]"),
        ("IDLE+DRAIN", "k8s: cordon [slurm@2026-01-01T00:00:00]"),
        ("DOWN", FULL),
    ],
)
def test_no_other_drain_is_touched(pod: Pod, looking: list[subprocess.Popen[bytes]], state: str, reason: str) -> None:
    pod.slurm(state, reason)
    looking.append(pod.start())
    pod.looks_again(8)
    assert (pod.lines("asked"), pod.lines("writes")) == (["asked"], [])


def test_a_disk_that_was_full_between_two_looks_is_found_later(
    pod: Pod, looking: list[subprocess.Popen[bytes]]
) -> None:
    pod.slurm("IDLE", "none")
    looking.append(pod.start(ask_each=10))
    pod.looks_again(5)
    pod.slurm("MIXED+DRAIN", FULL)
    assert pod.is_open()


def test_a_slurmctld_that_is_away_is_asked_again(pod: Pod, looking: list[subprocess.Popen[bytes]]) -> None:
    pod.slurmctld_is_away(True)
    looking.append(pod.start())
    pod.looks_again(6)
    assert pod.lines("writes") == []
    pod.slurmctld_is_away(False)
    assert pod.is_open()
