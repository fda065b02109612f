"""reopen-full: a node that Slurm drained for a full disk comes back with room, if nobody else had drained it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.waiting import wait_until

SCRIPT = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "reopen-full"
FULL = "SlurmdSpoolDir is full [root@2026-01-01T00:00:00]"
AGAIN = "SlurmdSpoolDir is full [root@2026-01-01T00:10:00]"
LIFT = "update nodename=n state=undrain reason= "
SCONTROL = """\
#!/bin/bash
case $* in
  *show*)
    echo asked >> asked
    [ ! -e away ] || exit 1
    echo "NodeName=n State=$(< state) ThreadsPerCore=1 Reason=$(< reason)" ;;
  *) echo IDLE > state.new && mv state.new state && echo none > reason && echo "$*" >> writes ;;
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
        self.slurm("IDLE", "none")
        self.spool = folder / "spool"
        self.spool.mkdir()

    def start(self) -> subprocess.Popen[bytes]:
        """It is looked at, for ever."""
        env = {
            **os.environ, "SUNKPY_SLURM_NODE": "n", "SUNKPY_PAUSE_S": "0.05", "SUNKPY_JITTER_S": "0",
            "SUNKPY_SPOOL": str(self.spool), "PATH": f"{self._folder}:{os.environ['PATH']}",
        }  # fmt: skip
        return subprocess.Popen([SCRIPT], env=env, cwd=self._folder, stdout=subprocess.PIPE)

    def disk(self, used: str) -> None:
        """So full it is, by bytes and inodes."""
        (self._folder / "new").write_text(used)
        (self._folder / "new").rename(self._folder / "df.says")

    def slurm(self, state: str, reason: str) -> None:
        """So the node is."""
        for name, text in (("reason", reason), ("state", state)):
            (self._folder / "new").write_text(text)
            (self._folder / "new").rename(self._folder / name)

    def slurmctld_is_away(self, is_away: bool) -> None:
        """It does not answer."""
        if is_away:
            (self._folder / "away").touch()
        else:
            (self._folder / "away").unlink()

    def lines(self, name: str) -> list[str]:
        """The calls of a program."""
        file = self._folder / name
        return file.read_text().splitlines() if file.exists() else []

    def looks_again(self, times: int = 4) -> None:
        """Wait until reopen-full has looked at the disk `times` more times."""
        before = len(self.lines("looks"))
        assert wait_until(lambda: len(self.lines("looks")) >= before + times, timeout_s=30, every_s=0.02)

    def is_asked_again(self) -> None:
        """Slurm has been asked since, and what it said is known."""
        before = len(self.lines("asked"))
        assert wait_until(lambda: len(self.lines("asked")) >= before + 3, timeout_s=30, every_s=0.02)

    def is_open(self, times: int = 1) -> bool:
        """True if the drain was lifted `times` times."""
        return bool(wait_until(lambda: len(self.lines("writes")) >= times, timeout_s=30, every_s=0.02))


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
        each.wait()
        assert each.stdout is not None
        each.stdout.close()


@pytest.fixture
def looked_at(pod: Pod, looking: list[subprocess.Popen[bytes]]) -> Pod:
    """The pod, whose disk is full; reopen-full has seen its node open."""
    pod.disk("96%   3%")
    looking.append(pod.start())
    pod.is_asked_again()
    return pod


@pytest.mark.parametrize("full", ["100%  3%", "96%   -", "40% 100%"])
def test_the_drain_is_lifted_once_there_is_room(pod: Pod, looking: list[subprocess.Popen[bytes]], full: str) -> None:
    pod.disk(full)
    looking.append(pod.start())
    pod.is_asked_again()
    pod.slurm("MIXED+DRAIN", FULL)
    pod.is_asked_again()
    assert pod.lines("writes") == []
    pod.disk("60%   -")
    assert pod.is_open()
    assert pod.lines("writes") == [LIFT]
    assert (set(pod.lines("looks")), list(pod.spool.iterdir())) == ({str(pod.spool)}, [])
    stdout = looking[0].stdout
    assert stdout is not None
    assert stdout.readline().decode() == (
        f"start-slurmd: {pod.spool} has room again, so the drain of n that Slurm set when it was full is lifted\n"
    )


def test_a_disk_with_room_asks_nothing(pod: Pod, looking: list[subprocess.Popen[bytes]]) -> None:
    pod.slurm("IDLE+DRAIN", FULL)
    looking.append(pod.start())
    pod.looks_again(8)
    assert (pod.lines("asked"), pod.lines("writes")) == ([], [])


def test_a_drain_that_was_there_first_is_left_to_a_person(pod: Pod, looking: list[subprocess.Popen[bytes]]) -> None:
    pod.disk("96%   3%")
    pod.slurm("IDLE+DRAIN", FULL)
    looking.append(pod.start())
    pod.is_asked_again()
    pod.disk("40%   3%")
    pod.looks_again(8)
    assert pod.lines("writes") == []


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("MIXED+DRAIN", "bad DIMM [slurm@2026-01-01T00:00:00]"),
        ("IDLE+DRAIN", "k8s: pod pending deletion: scale down [slurm@2026-01-01T00:00:00]"),
        ("DOWN", "bad DIMM [slurm@2026-01-01T00:00:00]"),
    ],
)
def test_a_drain_that_the_full_disk_replaced_is_not_lifted(looked_at: Pod, state: str, reason: str) -> None:
    looked_at.slurm(state, reason)
    looked_at.is_asked_again()
    looked_at.disk("100%  3%")
    looked_at.slurm("MIXED+DRAIN", FULL)
    looked_at.is_asked_again()
    looked_at.disk("40%   3%")
    looked_at.looks_again(8)
    assert looked_at.lines("writes") == []


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("IDLE+DRAIN", "SlurmdSpoolDir is full [slurm@2026-01-01T00:00:00]"),
        ("IDLE+DRAIN", "the disk: SlurmdSpoolDir is full [root@2026-01-01T00:00:00]"),
        ("IDLE+DRAIN", "k8s: cordon [slurm@2026-01-01T00:00:00]"),
        ("DOWN", FULL),
    ],
)
def test_no_other_drain_is_touched(looked_at: Pod, state: str, reason: str) -> None:
    looked_at.slurm(state, reason)
    looked_at.is_asked_again()
    looked_at.disk("40%   3%")
    looked_at.looks_again(8)
    assert looked_at.lines("writes") == []


def test_a_drain_that_came_while_slurmctld_was_away_is_left_to_a_person(looked_at: Pod) -> None:
    looked_at.slurmctld_is_away(True)
    looked_at.is_asked_again()
    looked_at.slurm("MIXED+DRAIN", FULL)
    looked_at.slurmctld_is_away(False)
    looked_at.is_asked_again()
    looked_at.disk("40%   3%")
    looked_at.looks_again(8)
    assert looked_at.lines("writes") == []


@pytest.mark.parametrize(("then", "lifts"), [(FULL, [LIFT]), (AGAIN, [])])
def test_after_slurmctld_was_away_only_the_known_drain_is_lifted(looked_at: Pod, then: str, lifts: list[str]) -> None:
    looked_at.slurm("MIXED+DRAIN", FULL)
    looked_at.is_asked_again()
    looked_at.slurmctld_is_away(True)
    looked_at.is_asked_again()
    looked_at.disk("40%   3%")
    looked_at.looks_again(6)
    assert looked_at.lines("writes") == []
    looked_at.slurm("MIXED+DRAIN", then)
    looked_at.slurmctld_is_away(False)
    looked_at.looks_again(8)
    assert looked_at.lines("writes") == lifts


def test_a_spool_that_cannot_be_written_keeps_its_drain(looked_at: Pod) -> None:
    looked_at.slurm("MIXED+DRAIN", FULL)
    looked_at.is_asked_again()
    looked_at.spool.rmdir()
    looked_at.disk("40%   3%")
    looked_at.looks_again(8)
    assert looked_at.lines("writes") == []
    looked_at.spool.mkdir()
    assert looked_at.is_open()


def test_the_fourth_time_within_a_day_is_left_to_a_person(
    looked_at: Pod, looking: list[subprocess.Popen[bytes]]
) -> None:
    looked_at.disk("85%   3%")
    for times in (1, 2, 3):
        looked_at.slurm("MIXED+DRAIN", FULL)
        assert looked_at.is_open(times)
        looked_at.is_asked_again()
    looked_at.slurm("MIXED+DRAIN", FULL)
    looked_at.is_asked_again()
    looked_at.looks_again(8)
    assert looked_at.lines("writes") == [LIFT] * 3
    looking[0].kill()
    stdout = looking[0].stdout
    assert stdout is not None
    assert stdout.read().decode().splitlines()[3:] == [
        f"start-slurmd: n stays drained, because {looked_at.spool} was full 3 times before within a day: "
        "resume it by hand"
    ]
