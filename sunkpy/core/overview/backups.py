"""The backups of a Slurm cluster, from the reports of their last runs, and whether an admin has to look at them.

A run writes a report as its termination message (`slurm-images/bin/copy-backup`), and the pod's status keeps it. So a
person needs no access to the volume, and no key of the bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import KubeObject, Wire
from sunkpy.core.model.times import parse_rfc3339
from sunkpy.core.overview.table import Table

Manifest = dict[str, Any]
LATE_S: Final = 30 * 3600.0
"""The age in seconds at which a backup is late, if no annotation of its CronJob says another age."""
_OF: Final = {"backup": "database", "state-backup": "queue"}
"""Component of a CronJob → what it backs up."""
COMPONENTS: Final = tuple(_OF)
_STEPS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_SIZES: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


class BackupFile(msgspec.Struct, frozen=True, array_like=True):
    """One backup. `made`: its name, `20260801T034700Z`. `size`: in bytes; 0 if only the bucket has it.

    `is_whole`: whether a run that read the backup found it complete; None if no run has read it.
    """

    made: str
    size: int
    where: Literal["volume", "bucket", "both"]
    is_whole: bool | None = None

    @property
    def made_at(self) -> datetime:
        """The time at which the backup was made, from its name."""
        return datetime.strptime(self.made, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


class BackupReport(Wire, frozen=True, kw_only=True):
    """The report of one run of a backup's CronJob. `files`: the backups that exist, without the oldest `left_off` ones.

    `size`, `free`: of the volume, in bytes.
    """

    name: str
    type: str
    size: int
    free: int
    bucket: str = ""
    error: str = ""
    left_off: int = 0
    files: tuple[BackupFile, ...] = ()


class JobTemplate(Wire, frozen=True, kw_only=True):
    """The template of a CronJob's Jobs, with their spec unchanged."""

    spec: Manifest = msgspec.field(default_factory=dict)


class CronJobSpec(Wire, frozen=True, kw_only=True):
    """The spec of a CronJob: when it runs, and what."""

    schedule: str = ""
    suspend: bool = False
    job_template: JobTemplate = JobTemplate()


class CronJobStatus(Wire, frozen=True, kw_only=True):
    """The status of a CronJob: when one of its runs last succeeded."""

    last_successful_time: str | None = None


class CronJob(KubeObject, frozen=True, kw_only=True):
    """A CronJob that makes backups."""

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()

    @property
    def component(self) -> str:
        """The CronJob's component by its label: `backup` (the database) or `state-backup` (Slurm's queue)."""
        return self.labels.get("app.kubernetes.io/component", "")


class RunEnd(Wire, frozen=True, kw_only=True):
    """How the container of a run ended: exit code, time, and termination message."""

    exit_code: int = 0
    finished_at: str = ""
    message: str = ""


class _RunState(Wire, frozen=True, kw_only=True):
    terminated: RunEnd | None = None


class _RunContainer(Wire, frozen=True, kw_only=True):
    state: _RunState = _RunState()


class _RunStatus(Wire, frozen=True, kw_only=True):
    container_statuses: tuple[_RunContainer, ...] = ()


class Run(KubeObject, frozen=True, kw_only=True):
    """The pod of one run of a backup's CronJob, or of a verification of its backups."""

    status: _RunStatus = _RunStatus()

    @property
    def component(self) -> str:
        """The component of the CronJob that the run belongs to, by the pod's label."""
        return self.labels.get("app.kubernetes.io/component", "")

    @property
    def is_verification(self) -> bool:
        """Whether the run only read backups, and made none."""
        return names.LABEL_VERIFIES_BACKUPS in self.labels

    @property
    def end(self) -> RunEnd | None:
        """How the run ended; None while it runs."""
        return next((each.state.terminated for each in self.status.container_statuses if each.state.terminated), None)

    @property
    def report(self) -> BackupReport | None:
        """The report of the run; None if it left none that can be read."""
        try:
            return msgspec.json.decode(self.end.message, type=BackupReport) if self.end is not None else None
        except msgspec.DecodeError:
            return None


class Backup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The backups of one CronJob. `of`: what it backs up. `report`: of the last run that left one.

    `last_success`: when a run last succeeded. `failed`: why the last run failed; empty if it did not. A successful
    verification does not count as a run here. `problem`: why an admin has to look at it; empty if nobody has to.
    """

    of: str
    namespace: str
    cron_job: str
    schedule: str
    last_success: str = ""
    failed: str = ""
    report: BackupReport | None = None
    problem: str = ""


class Backups(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of `kubectl sunk backups`: an entry for each CronJob that makes backups."""

    backups: tuple[Backup, ...]


def find_backup(cron_job: CronJob, runs: Iterable[Run], now: datetime) -> Backup:
    """Return what is known about the backups of one CronJob, from the pods of its runs that still exist."""
    own = [run for run in runs if run.component == cron_job.component and run.metadata.namespace == cron_job.key[0]]
    ended = sorted(((run.end.finished_at, run) for run in own if run.end is not None), key=lambda each: each[0])
    report = next((run.report for _, run in reversed(ended) if run.report is not None), None)
    found = Backup(
        of=_OF.get(cron_job.component, cron_job.component),
        namespace=cron_job.metadata.namespace,
        cron_job=cron_job.name,
        schedule=cron_job.spec.schedule,
        last_success=cron_job.status.last_successful_time or "",
        failed=_last_failure([run for _, run in reversed(ended)]),
        report=report,
    )
    return msgspec.structs.replace(found, problem=_problem(found, cron_job, now))


def _last_failure(newest_first: Sequence[Run]) -> str:
    if not newest_first:
        return ""
    newest = newest_first[0]
    made = next((run for run in newest_first if not run.is_verification), newest)
    # A successful verification does not say whether the last backup was made.
    return _failure(newest) or _failure(made)


def _failure(run: Run) -> str:
    if run.end is None or not run.end.exit_code:
        return ""
    said = run.report.error if run.report is not None else ""
    return said or f"exit code {run.end.exit_code}; its log has the reason: kubectl logs {run.name}"


def _problem(backup: Backup, cron_job: CronJob, now: datetime) -> str:
    if cron_job.spec.suspend:
        return f"CronJob {cron_job.name} is suspended"
    if backup.failed:
        return backup.failed
    since = backup.last_success or cron_job.metadata.creation_timestamp
    age_s = (now - parse_rfc3339(since)).total_seconds() if since else 0.0
    if age_s > late_after_s(cron_job):
        none = "no run has succeeded yet" if not backup.last_success else f"no run has succeeded for {span(age_s)}"
        return f"{none}: kubectl describe cronjob {cron_job.name}"
    return ""


def late_after_s(cron_job: CronJob) -> float:
    """Return after how many seconds without a new backup of this CronJob the backups are late."""
    text = cron_job.annotations.get(names.ANNOTATION_LATE_AFTER, "")
    return float(text) if text.isdecimal() else LATE_S


def job_that_verifies(cron_job: CronJob, name: str) -> Manifest:
    """Return the manifest of a Job that verifies the CronJob's backups. It has the volumes of a Job that makes a
    backup.

    The CronJob does not own the Job, because a successful verification would count as a successful backup. The label of
    its pods is for the same reason.
    """
    spec = dict(cron_job.spec.job_template.spec)
    (container, *others) = spec["template"]["spec"]["containers"]
    container = {**container, "args": [*container["args"], "verify"]}
    metadata = dict(spec["template"].get("metadata", {}))
    metadata["labels"] = metadata.get("labels", {}) | {names.LABEL_VERIFIES_BACKUPS: "true"}
    template = {"metadata": metadata, "spec": spec["template"]["spec"] | {"containers": [container, *others]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": cron_job.labels},
        "spec": spec | {"template": template, "backoffLimit": 0, "ttlSecondsAfterFinished": 3600},
    }


def backup_tables(backups: Iterable[Backup], now: datetime, *, is_wide: bool) -> list[Table]:
    """Return a table with a row for each CronJob; if `is_wide`, also a table with a row for each backup."""
    found = list(backups)
    titles = ("OF", "NEWEST", "AGE", "SIZE", "KEPT", "IN BUCKET", "FREE", "STATE")
    tables = [Table(titles=titles, rows=tuple(_row(backup, now) for backup in found))]
    if is_wide:
        rows = tuple(_file_row(backup.of, file) for backup in found if backup.report for file in backup.report.files)
        tables.append(Table(titles=("OF", "MADE", "SIZE", "WHERE", "WHOLE"), rows=rows))
    return tables


def _row(backup: Backup, now: datetime) -> tuple[str, ...]:
    state = "look" if backup.problem else "ok"
    if backup.report is None:
        none = "no report of a run can be read" if backup.last_success else "no run has ended yet"
        return (backup.of, "", "", "", "", "", "", state if backup.problem else none)
    files, free = backup.report.files, in_units(backup.report.free)
    in_bucket = str(sum(file.where != "volume" for file in files)) if backup.report.bucket else ""
    kept = str(len(files) + backup.report.left_off)
    if not files:
        return (backup.of, "", "", "", kept, in_bucket, free, state)
    age_s = (now - files[0].made_at).total_seconds()
    return (backup.of, files[0].made, span(age_s), in_units(files[0].size), kept, in_bucket, free, state)


def _file_row(of: str, file: BackupFile) -> tuple[str, ...]:
    whole = {True: "yes", False: "NO", None: ""}[file.is_whole]
    return (of, file.made, in_units(file.size) if file.size else "", file.where, whole)


def span(seconds: float) -> str:
    """Return a time span in its largest unit: `3 d`, `5 h`, `12 min`."""
    unit_s, unit = next((each for each in _STEPS if seconds >= each[0]), _STEPS[-1])
    return f"{max(seconds, 0) // unit_s:.0f} {unit}"


def in_units(size: int) -> str:
    """Return a number of bytes in its largest unit: `1.2 GiB`."""
    unit, name = next((each for each in _SIZES if size >= each[0]), _SIZES[-1])
    return f"{size / unit:.1f} {name}" if unit > 1 else f"{size} {name}"
