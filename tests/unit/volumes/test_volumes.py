"""What is seen of volumes: real folders on a real file system."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry

from devcluster.waiting import wait_until
from sunkpy.runtime.settings import BadSettings, decode
from sunkpy.volumes.metrics import VolumesCollector, made_at
from sunkpy.volumes.settings import BackupSettings, VolumesSettings
from tests.ports import free_ports

BEGAN = 1_700_000_000.0
HOUR = 3600.0


def seen(settings: VolumesSettings) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by name and by those of the labels."""
    families = VolumesCollector(settings, began=BEGAN).collect()
    return {f.name: {tuple(sample.labels.values()): sample.value for sample in f.samples} for f in families}


def backups(folder: Path) -> Mapping[str, Mapping[tuple[str, ...], float]]:
    wanted = BackupSettings(of="queue", folder=str(folder), name="state", late_after_seconds=4 * HOUR)
    found = seen(VolumesSettings(volumes={}, backups=wanted))
    return {name.removeprefix("sunkpy_backup_"): values for name, values in found.items() if "backup" in name}


def write(file: Path, size: int, at: float | None = None) -> None:
    file.write_bytes(b"x" * size)
    if at is not None:
        os.utime(file, (at, at))


def test_a_volume_is_as_large_and_as_full_as_its_file_system_says(tmp_path: Path) -> None:
    found = seen(VolumesSettings(volumes={"state-slurm-slurmctld-0": str(tmp_path)}))
    says = os.statvfs(tmp_path)
    assert found["sunkpy_volume_size_bytes"] == {("state-slurm-slurmctld-0",): says.f_blocks * says.f_frsize}
    (free,) = found["sunkpy_volume_free_bytes"].values()
    assert free == pytest.approx(says.f_bavail * says.f_frsize, rel=0.1), "what root alone may use is not free"
    assert found["sunkpy_volume_inodes"] == {("state-slurm-slurmctld-0",): says.f_files}
    assert [*found["sunkpy_volume_free_inodes"]] == [("state-slurm-slurmctld-0",)]


def test_jobs_were_saved_when_their_file_was_written_and_never_before_there_is_one(tmp_path: Path) -> None:
    settings = VolumesSettings(volumes={}, job_state=str(tmp_path / "job_state"))
    assert seen(settings)["sunkpy_job_state_saved_timestamp_seconds"] == {}
    write(tmp_path / "job_state", 1, at=BEGAN)
    assert seen(settings)["sunkpy_job_state_saved_timestamp_seconds"] == {(): BEGAN}


def test_the_database_is_as_large_as_its_tables_lie_on_the_volume(tmp_path: Path) -> None:
    settings = VolumesSettings(volumes={}, database=str(tmp_path / "slurm_acct_db"))
    assert seen(settings)["sunkpy_database_size_bytes"] == {}
    (tmp_path / "slurm_acct_db").mkdir()
    write(tmp_path / "slurm_acct_db" / "demo_job_table.ibd", 1 << 20)
    with (tmp_path / "slurm_acct_db" / "demo_step_table.ibd").open("wb") as sparse:
        sparse.truncate(1 << 30)
    assert seen(settings)["sunkpy_database_size_bytes"][()] == pytest.approx(1 << 20, abs=1 << 14)


def test_a_backup_is_late_some_time_after_the_newest(tmp_path: Path) -> None:
    write(tmp_path / "state-20260801T034700Z.tar.gz", 7, at=1)
    write(tmp_path / "state-20260731T034700Z.tar.gz", 5)
    write(tmp_path / "state-20260802T034700Z.tar.gz.part", 9)
    write(tmp_path / "not-ours-20260803T034700Z.tar.gz", 9)
    made = datetime(2026, 8, 1, 3, 47, tzinfo=UTC).timestamp()
    assert backups(tmp_path) == {
        "made_timestamp_seconds": {("queue",): made},
        "size_bytes": {("queue",): 7},
        "copied_timestamp_seconds": {},
        "failed_timestamp_seconds": {},
        "late_timestamp_seconds": {("queue", "volume"): made + 4 * HOUR},
    }


def test_where_there_is_no_backup_it_is_late_some_time_after_the_start(tmp_path: Path) -> None:
    found = backups(tmp_path)
    assert found["made_timestamp_seconds"] == found["size_bytes"] == {}
    assert found["late_timestamp_seconds"] == {("queue", "volume"): BEGAN + 4 * HOUR}


@pytest.mark.parametrize(("copied", "late"), [(BEGAN + HOUR, BEGAN + 5 * HOUR), (0, BEGAN + 4 * HOUR)])
def test_the_copy_in_a_bucket_is_late_by_itself(tmp_path: Path, copied: float, late: float) -> None:
    """copy-backup touches the stamp when the bucket has all; before the first time it says 1970."""
    write(tmp_path / "state-20260801T034700Z.tar.gz", 7)
    write(tmp_path / ".state.copied", 0, at=copied)
    found = backups(tmp_path)
    assert found["copied_timestamp_seconds"] == {("queue",): copied}
    assert found["late_timestamp_seconds"]["queue", "bucket"] == late


def test_a_run_that_failed_is_told_until_one_ends_well(tmp_path: Path) -> None:
    """copy-backup leaves a file, and takes it away."""
    write(tmp_path / ".state.failed", 0, at=BEGAN)
    assert backups(tmp_path)["failed_timestamp_seconds"] == {("queue",): BEGAN}


@pytest.mark.parametrize(
    "file",
    ["state-20260801T034700Z.zip", "state-2026.tar.gz", "state.tar.gz", "xstate-20260801T034700Z.tar.gz", "lost+found"],
)
def test_what_copy_backup_did_not_write_is_no_backup(file: str) -> None:
    assert made_at(file, "state") is None


@pytest.mark.parametrize("of", ["volume", "backups"])
def test_what_cannot_be_read_fails_the_scrape(tmp_path: Path, of: str) -> None:
    """An answer without it would look like a volume that nobody has."""
    gone = str(tmp_path / "gone")
    own = BackupSettings(of="queue", folder=gone, name="state", late_after_seconds=1) if of == "backups" else None
    settings = VolumesSettings(volumes={"a": gone} if of == "volume" else {}, backups=own)
    registry = CollectorRegistry()
    registry.register(VolumesCollector(settings, began=BEGAN))
    with pytest.raises(FileNotFoundError, match="gone"):
        [*registry.collect()]


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(BadSettings, match="--settings: Object contains unknown field `volume`"):
        decode(b'{"volumes": {}, "volume": 1}', VolumesSettings, where="--settings")


def test_the_command_serves_it_without_a_lease_and_says_what_it_cannot_read(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (folder := tmp_path / "volume").mkdir()
    settings = f'{{volumes: {{a: "{folder}"}}, http: {{port: {port}}}}}'
    words = [sys.executable, "-c", "from sunkpy.cli import main; main()", "volumes", "--settings", settings]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert '"event": "started"' in process.stderr.readline()
            answer = httpx.get(f"http://127.0.0.1:{port}/metrics")
            folder.rmdir()
            assert wait_until(lambda: httpx.get(f"http://127.0.0.1:{port}/metrics").is_server_error, timeout_s=60)
        finally:
            process.terminate()
        assert f"No such file or directory: '{folder}'" in process.stderr.read()
    assert process.returncode == 0
    assert 'sunkpy_volume_free_bytes{persistentvolumeclaim="a"}' in answer.text
    assert "sunkpy_leader 1.0" in answer.text
