"""Settings of `sunkpy volumes`, the process that watches volumes."""

from __future__ import annotations

from typing import Literal

from sunkpy.runtime.settings import ProcessSettings, Settings


class BackupSettings(Settings, frozen=True, kw_only=True):
    """Backups in `folder`, with the name `<name>-<time>.<type>` that copy-backup gives. `of` says what is saved.

    `late_after_seconds`: at which age the newest backup is late, and so is its copy in a bucket.
    """

    of: Literal["queue", "database"]
    folder: str
    name: str
    late_after_seconds: float


class VolumesSettings(ProcessSettings, frozen=True, kw_only=True):
    """The settings of `sunkpy volumes`. `volumes`: PersistentVolumeClaim → where it is mounted.

    `job_state`: the file with the jobs of slurmctld. `database`: the folder with the tables of accounting.
    """

    volumes: dict[str, str]
    job_state: str = ""
    database: str = ""
    backups: BackupSettings | None = None
