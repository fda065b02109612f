"""A volume of backups that fills: real file systems of a few MB, without a bucket."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

BIN = Path(__file__).parents[3] / "slurm-images" / "bin"
NAME, TYPE = "slurm_acct_db", "sql.gz"
END = b"-- Dump completed on a day\n"
MIB = 1 << 20
DUMP = f"head -c $1 /dev/urandom | base64 -w 76; echo '{END.decode().strip()}'"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


def name_of(days: float) -> str:
    """The name of a backup that was made `days` days ago."""
    return f"{NAME}-{datetime.now(UTC) - timedelta(days=days):%Y%m%dT%H%M%SZ}.{TYPE}"


class Volume:
    """A small volume at /backup of a root of its own, in which the script runs."""

    def __init__(self, root: Path, size: int) -> None:
        self.root, self.folder = root, root / "backup"
        for name in ("usr", "etc", "dev", "proc", "tmp", "backup"):
            (root / name).mkdir(parents=True)
        for name in ("bin", "lib", "lib64", "sbin"):
            (root / name).symlink_to(f"usr/{name}")
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "backup", self.folder], check=True)

    def add(self, *, days: float, size: int, whole: bool = True) -> str:
        """Add a backup of about this size that was made `days` days ago; return its name."""
        name = name_of(days)
        (self.folder / name).write_bytes(gzip.compress(os.urandom(size) + b"\n" + END * whole, 1))
        return name

    @property
    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir() if not path.name.startswith(".")}

    @property
    def says_failed(self) -> bool:
        """What the metrics read."""
        return (self.folder / f".{NAME}.failed").exists()

    def run(
        self, *command: str, keep_days: int = 14, script: str = "copy-backup", before: str = "true"
    ) -> subprocess.CompletedProcess[str]:
        """The script, as in its pod."""
        mounts = (f"mount --rbind /{each} {self.root}/{each}" for each in ("usr", "etc", "dev", "proc"))
        bind = f"mount --bind {BIN} {self.root}/usr/local/bin"
        into = f'{" && ".join([*mounts, bind, before])} && exec chroot {self.root} /usr/local/bin/{script} "$@"'
        env = {**os.environ, "SUNKPY_KEEP_DAYS": str(keep_days), "SUNKPY_REPORT": "/tmp/report"}
        argv = ["unshare", "--mount", "bash", "-c", into, "-", *command]
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)

    def make(self, size: int, **options: int) -> subprocess.CompletedProcess[str]:
        """A new backup of about this size."""
        command = ("bash", "-o", "pipefail", "-c", f"({DUMP}) | gzip -1", "-", str(size))
        return self.run("make", NAME, TYPE, *command, **options)

    @property
    def report(self) -> dict[str, object]:
        return json.loads((self.root / "tmp/report").read_text())


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    volume = Volume(tmp_path / "root", 8 * MIB)
    yield volume
    subprocess.run(["umount", volume.folder], check=True)


def test_old_ones_go_before_a_new_one_is_written(volume: Volume):
    """14 dumps of these would have to fit, and 7 do: without room made first, no backup is made ever again."""
    old = [volume.add(days=20 + day, size=MIB) for day in range(7)]
    done = volume.make(MIB)
    assert done.returncode == 0, done.stderr
    new, kept = volume.names - {*old}, volume.names & {*old}
    assert len(new) == 1
    assert kept == {old[0]}, "the newest of before is there until the new one is"


def test_a_volume_too_small_for_all_days_has_the_newest(volume: Volume):
    young = [volume.add(days=day + 1, size=MIB) for day in range(7)]
    for hours in (3, 2, 1):
        before = volume.names
        done = volume.make(MIB)
        assert done.returncode == 0, done.stderr
        assert "copy-backup: deleted slurm_acct_db-" in done.stdout
        (new,) = volume.names - before
        (volume.folder / new).rename(volume.folder / name_of(hours / 24))
    assert young[0] in volume.names
    assert young[-1] not in volume.names


def test_the_last_backup_stays_when_no_second_one_fits(volume: Volume):
    (only,) = [volume.add(days=30, size=5 * MIB)]
    done = volume.make(5 * MIB)
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "copy-backup: no new backup in /backup" in done.stderr
    assert volume.names == {only}
    assert volume.report["error"]
    assert volume.says_failed


def test_what_was_cut_short_an_hour_ago_leaves_room(volume: Volume):
    left, young, foreign = (
        volume.folder / name for name in (f"{NAME}-1.{TYPE}.part", f"{NAME}-2.{TYPE}.part", "notes")
    )
    for path, minutes in ((left, 61), (young, 5), (foreign, 600)):
        path.write_bytes(bytes(3 * MIB // 2))
        then = (datetime.now(UTC) - timedelta(minutes=minutes)).timestamp()
        os.utime(path, (then, then))
    assert volume.make(2 * MIB).returncode == 0
    assert {young.name, foreign.name} < volume.names
    assert left.name not in volume.names


def test_a_command_that_fails_makes_nothing(volume: Volume):
    there = volume.add(days=1, size=1000)
    for command in ("false", "echo half a dump | gzip"):
        done = volume.run("make", NAME, TYPE, "bash", "-c", command)
        assert done.returncode == 1
        assert volume.names == {there}
        assert volume.says_failed
    volume.run("verify", NAME, TYPE)
    assert volume.says_failed, "which makes none"
    assert volume.make(1000).returncode == 0
    assert not volume.says_failed


def test_a_state_that_is_not_there_yet_is_a_run_that_failed(volume: Volume):
    (volume.root / "var/lib/slurm/state").mkdir(parents=True)
    at_once = f"mount --bind /usr/bin/true {volume.root}/usr/bin/sleep"
    done = volume.run(script="backup-state", before=at_once)
    assert (done.returncode, "has not saved jobs and its name" in done.stderr) == (1, True)
    assert (volume.folder / ".state.failed").exists()


def test_a_report_has_all_that_there_is(volume: Volume):
    old, older = (volume.add(days=days, size=1000) for days in (1, 2))
    assert volume.make(1000).returncode == 0
    report = volume.report
    newest, *others = report["files"]
    assert [each[0] for each in others] == [name.split("-")[1].split(".")[0] for name in (old, older)]
    assert [each[1] for each in others] == [(volume.folder / name).stat().st_size for name in (old, older)]
    assert {each[2] for each in (newest, *others)} == {"volume"}
    assert (report["name"], report["type"], report["size"], report["error"]) == (NAME, TYPE, 8 * MIB, "")
    assert 0 < report["free"] < 8 * MIB


def test_a_report_fits_into_what_a_kubelet_keeps(volume: Volume):
    for hours in range(1, 201):
        volume.add(days=hours / 24, size=1)
    assert volume.make(1).returncode == 0
    assert (volume.root / "tmp/report").stat().st_size <= 4096
    report = volume.report
    assert len(report["files"]) + report["leftOff"] == 201


def test_verify_names_what_is_not_whole(volume: Volume):
    good, cut, damaged = (volume.add(days=days, size=100_000) for days in (1, 2, 3))
    unfinished = volume.add(days=4, size=100_000, whole=False)
    os.truncate(volume.folder / cut, 50_000)
    with (volume.folder / damaged).open("r+b") as file:
        file.seek(50_000)
        file.write(b"changed")
    done = volume.run("verify", NAME, TYPE)
    assert done.returncode == 1
    assert [each[3] for each in volume.report["files"]] == [True, False, False, False]
    assert "3 of 4 backups are not whole" in done.stderr
    for name in (cut, damaged, unfinished):
        (volume.folder / name).unlink()
    done = volume.run("verify", NAME, TYPE)
    assert (done.returncode, volume.names) == (0, {good})
    assert done.stdout == f"copy-backup: {good}: whole\n"


def test_there_is_nothing_to_verify(volume: Volume):
    done = volume.run("verify", NAME, TYPE)
    assert (done.returncode, done.stderr) == (1, "copy-backup: there is no backup slurm_acct_db-*.sql.gz in /backup\n")
