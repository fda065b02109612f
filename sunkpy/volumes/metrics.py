"""How full volumes are, read when somebody scrapes.

What cannot be read fails the whole answer, so that Prometheus sees that nobody looks. A file that is not there yet has
no series.
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
"""The label of `kubelet_volume_stats_*`."""
_BLOCK: Final = 512
"""Bytes of a block of `st_blocks`, whatever the file system."""


class VolumesCollector(Collector):
    """`began`: when this process did, in seconds since 1970. Backups that are not there are late from then on."""

    def __init__(self, settings: VolumesSettings, *, began: float) -> None:
        self._settings = settings
        self._began = began

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Give all metrics.

        Raises:
            OSError: a folder is not there, or is not for us.
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
    free = GaugeMetricFamily(
        "sunkpy_volume_free_bytes", "Bytes that may still be written to the volume", labels=[CLAIM]
    )
    inodes = GaugeMetricFamily(
        "sunkpy_volume_inodes", "How many files the volume can hold; 0: no limit", labels=[CLAIM]
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
        "When slurmctld last saved its jobs, which it does each 5 minutes and after changes. If it is "
        "older while slurmctld runs, slurmctld loses the changes since then when its process ends",
    )
    with contextlib.suppress(FileNotFoundError):
        saved.add_metric([], file.stat().st_mtime)
    return saved


def _database(folder: Path) -> GaugeMetricFamily:
    size = GaugeMetricFamily("sunkpy_database_size_bytes", "Bytes on the volume of accounting's tables")
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
        "When the bucket last had all backups; 0 if it never had. The metric does not exist without a bucket",
        labels=["of"],
    )
    failed = GaugeMetricFamily(
        "sunkpy_backup_failed_timestamp_seconds",
        "When the last run failed, wholly or in part. The metric does not exist if it ended well",
        labels=["of"],
    )
    late = GaugeMetricFamily(
        "sunkpy_backup_late_timestamp_seconds",
        "When the newest backup, or its copy (`where` is `bucket`), becomes late: `lateAfterHours` after it was made",
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
    """When a backup was made, in seconds since 1970; None if the file is not a backup of this name."""
    found = re.fullmatch(rf"{re.escape(name)}-(\d{{8}}T\d{{6}})Z\.(?:sql|tar)\.gz", file)
    return datetime.strptime(found[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp() if found else None
