"""Metrics about how full volumes are, read at each scrape.

If a folder cannot be read, the whole scrape fails, so that Prometheus notices it. A file, or the folder of the
database, that does not exist yet has no series.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sunkpy.volumes.settings import BackupSettings, VolumesSettings

CLAIM: Final = "persistentvolumeclaim"
"""The label with the name of the claim, as in `kubelet_volume_stats_*`."""
_BLOCK: Final = 512
"""Bytes of a block in `st_blocks` of stat(2), on every file system."""


class VolumesCollector(Collector):
    """Makes the metrics of volumes, of slurmctld's saved jobs, of the database and of backups. `began`: the start of
    this process in seconds since 1970, from which the age of a missing backup counts.
    """

    def __init__(self, settings: VolumesSettings, *, began: float) -> None:
        self._settings = settings
        self._began = began

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield all metrics. prometheus_client calls this at each scrape.

        Raises:
            OSError: the folder of a volume or of backups does not exist, or this process may not read a folder.
        """
        yield from _of_volumes(self._settings.volumes)
        if self._settings.job_state:
            yield _job_state(Path(self._settings.job_state))
        if self._settings.database:
            yield _database(Path(self._settings.database))
        if self._settings.backups is not None:
            yield from _of_backups(self._settings.backups, self._began)


def _of_volumes(volumes: dict[str, str]) -> Iterator[GaugeMetricFamily]:
    size = GaugeMetricFamily("sunkpy_volume_size_bytes", "Bytes that the volume can hold", labels=[CLAIM])
    free = GaugeMetricFamily("sunkpy_volume_free_bytes", "Bytes that are still free on the volume", labels=[CLAIM])
    inodes = GaugeMetricFamily(
        "sunkpy_volume_inodes", "How many files the volume can hold. 0: the volume has no limit", labels=[CLAIM]
    )
    unused = GaugeMetricFamily(
        "sunkpy_volume_free_inodes", "How many more files may be made on the volume", labels=[CLAIM]
    )
    for claim, folder in volumes.items():
        found = os.statvfs(folder)
        size.add_metric([claim], found.f_blocks * found.f_frsize)
        free.add_metric([claim], found.f_bavail * found.f_frsize)
        inodes.add_metric([claim], found.f_files)
        unused.add_metric([claim], found.f_favail)
    yield from (size, free, inodes, unused)


def _job_state(file: Path) -> GaugeMetricFamily:
    saved = GaugeMetricFamily(
        "sunkpy_job_state_saved_timestamp_seconds",
        "When slurmctld last saved its jobs. It saves them each 5 minutes and after changes. If the time is "
        "older while slurmctld runs, slurmctld cannot save, and loses the changes since then when its process "
        "ends",
    )
    with contextlib.suppress(FileNotFoundError):
        saved.add_metric([], file.stat().st_mtime)
    return saved


def _database(folder: Path) -> GaugeMetricFamily:
    size = GaugeMetricFamily(
        "sunkpy_database_size_bytes", "Bytes that the accounting tables take on the volume of the database"
    )
    with contextlib.suppress(FileNotFoundError):
        total = 0
        for file in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                total += file.stat().st_blocks * _BLOCK
        size.add_metric([], total)
    return size


def _of_backups(backups: BackupSettings, began: float) -> Iterator[GaugeMetricFamily]:
    made = GaugeMetricFamily(
        "sunkpy_backup_made_timestamp_seconds", "When the newest backup on the volume was made", labels=["of"]
    )
    size = GaugeMetricFamily("sunkpy_backup_size_bytes", "Bytes of the newest backup on the volume", labels=["of"])
    copied = GaugeMetricFamily(
        "sunkpy_backup_copied_timestamp_seconds",
        "When the bucket last had a copy of all backups on the volume; 0 if it never had. The metric does not "
        "exist without a bucket",
        labels=["of"],
    )
    failed = GaugeMetricFamily(
        "sunkpy_backup_failed_timestamp_seconds",
        "When the last run of the backup failed, wholly or in part. The metric does not exist if the last run "
        "ended well",
        labels=["of"],
    )
    late = GaugeMetricFamily(
        "sunkpy_backup_late_timestamp_seconds",
        "When the newest backup becomes late, `lateAfterHours` after it was made. `where`: `volume`, or "
        "`bucket` for the copies in the bucket",
        labels=["of", "where"],
    )
    folder, of, limit_s = Path(backups.folder), backups.of, backups.late_after_seconds
    newest = max(((at, file) for file in folder.iterdir() if (at := made_at(file.name, backups.name))), default=None)
    late.add_metric([of, "volume"], (newest[0] if newest else began) + limit_s)
    if newest is not None:
        made.add_metric([of], newest[0])
        size.add_metric([of], newest[1].stat().st_size)
    with contextlib.suppress(FileNotFoundError):
        stamp = (folder / f".{backups.name}.copied").stat().st_mtime
        copied.add_metric([of], stamp)
        late.add_metric([of, "bucket"], (stamp or began) + limit_s)
    with contextlib.suppress(FileNotFoundError):
        failed.add_metric([of], (folder / f".{backups.name}.failed").stat().st_mtime)
    yield from (made, size, copied, failed, late)


def made_at(file: str, name: str) -> float | None:
    """Return when the backup in this file was made, in seconds since 1970; None if the file is not a backup of this
    name.
    """
    found = re.fullmatch(rf"{re.escape(name)}-(\d{{8}}T\d{{6}})Z\.(?:sql|tar)\.gz", file)
    return datetime.strptime(found[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp() if found else None
