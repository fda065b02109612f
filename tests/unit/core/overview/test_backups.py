from datetime import UTC, datetime

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.model.objects import Meta
from sunkpy.core.overview.backups import (
    LATE_S,
    CronJob,
    CronJobSpec,
    CronJobStatus,
    Run,
    backup_tables,
    find_backup,
    in_units,
    late_after_s,
    span,
)

NOW = datetime(2026, 11, 24, 12, 0, 0, tzinfo=UTC)


def cron_job(success="2026-11-24T03:17:00Z", *, component="backup", late="108000", suspend=False):
    labels = {"app.kubernetes.io/component": component}
    annotations = {names.ANNOTATION_LATE_AFTER: late} if late else {}
    meta = Meta(name=f"slurm-{component}", namespace="slurm", labels=labels, annotations=annotations)
    meta = msgspec.structs.replace(meta, creation_timestamp="2026-11-20T00:00:00Z")
    status = CronJobStatus(last_successful_time=success)
    return CronJob(metadata=meta, spec=CronJobSpec(schedule="17 3 * * *", suspend=suspend), status=status)


def run(
    name,
    ended="2026-11-24T03:17:30Z",
    *,
    code=0,
    message="",
    component="backup",
    namespace="slurm",
    verifies=False,
):
    labels = {"app.kubernetes.io/component": component} | ({names.LABEL_VERIFIES_BACKUPS: "true"} if verifies else {})
    meta = {"name": name, "namespace": namespace, "labels": labels}
    end = {"exitCode": code, "finishedAt": ended, "message": message} if ended else None
    status = {"containerStatuses": [{"state": {"terminated": end}}]}
    return msgspec.convert({"metadata": meta, "status": status}, Run)


def report(files="", error=""):
    text = (
        '{"name":"slurm_acct_db","type":"sql.gz","size":10,"free":5,"bucket":"","error":"%s","leftOff":0,"files":[%s]}'
    )
    return text % (error, files)


@pytest.mark.parametrize(
    ("cron", "problem"),
    [
        (cron_job(), ""),
        (cron_job("2026-11-23T06:00:01Z"), ""),
        (cron_job("2026-11-23T05:59:59Z"), "no run has succeeded for 1 d: kubectl describe cronjob slurm-backup"),
        (cron_job(None), "no run has succeeded yet: kubectl describe cronjob slurm-backup"),
        (cron_job(suspend=True), "CronJob slurm-backup is suspended"),
    ],
)
def test_a_backup_is_late_when_its_cron_job_says_so(cron, problem):
    assert find_backup(cron, (), NOW).problem == problem


@pytest.mark.parametrize(
    ("success", "says"),
    [(None, "no run has ended yet"), ("2026-11-24T03:17:00Z", "no report of a run can be read")],
)
def test_without_a_run_to_read_it_is_said_whether_there_was_one(success, says):
    found = find_backup(cron_job(success, late="1000000000"), (), NOW)
    (table,) = backup_tables([found], NOW, is_wide=False)
    assert table.rows[0][-1] == says


def test_a_new_cron_job_has_time_for_its_first_run():
    cron = cron_job(None)
    cron = msgspec.structs.replace(
        cron, metadata=msgspec.structs.replace(cron.metadata, creation_timestamp="2026-11-24T11:00:00Z")
    )
    assert find_backup(cron, (), NOW).problem == ""


@pytest.mark.parametrize(("text", "seconds"), [("7200", 7200), ("", LATE_S), ("soon", LATE_S)])
def test_what_cannot_be_read_is_a_day_with_time_to_spare(text, seconds):
    assert late_after_s(cron_job(late=text)) == seconds


def test_the_last_run_counts_and_the_newest_report():
    runs = [
        run("good", "2026-11-24T03:17:30Z", message=report('["20261124T031700Z",7,"volume",null]')),
        run("bad", "2026-11-24T04:17:30Z", code=1, message="not a report"),
        run("of-others", "2026-11-24T05:00:00Z", component="state-backup"),
        run("elsewhere", "2026-11-24T05:00:00Z", namespace="other"),
        run("runs", ended=""),
    ]
    found = find_backup(cron_job(), runs, NOW)
    assert found.failed == found.problem == "exit code 1; its log has the reason: kubectl logs bad"
    assert found.report is not None
    (file,) = found.report.files
    assert (file.made_at, file.size, file.is_whole) == (datetime(2026, 11, 24, 3, 17, tzinfo=UTC), 7, None)


def test_a_run_that_failed_says_why():
    found = find_backup(cron_job(), [run("bad", code=3, message=report(error="it is in the bucket alone"))], NOW)
    assert found.problem == "it is in the bucket alone"


MADE, MISSED, WHOLE, BROKEN = (
    {"code": 0},
    {"code": 1, "message": report(error="the dump broke off")},
    {"code": 0, "verifies": True},
    {"code": 1, "verifies": True, "message": report(error="1 of 2 backups are not whole")},
)


@pytest.mark.parametrize(
    ("runs", "failed"),
    [
        ((MISSED, WHOLE), "the dump broke off"),
        ((MISSED, BROKEN), "1 of 2 backups are not whole"),
        ((MISSED, BROKEN, WHOLE), "the dump broke off"),
        ((MISSED, MADE, WHOLE), ""),
        ((MADE, BROKEN), "1 of 2 backups are not whole"),
        ((MADE, BROKEN, WHOLE), ""),
        ((BROKEN, MADE), ""),
        ((MADE, WHOLE, MISSED), "the dump broke off"),
        ((WHOLE,), ""),
    ],
)
def test_a_verification_that_succeeds_does_not_hide_that_the_last_backup_failed(runs, failed):
    made = [run(f"run-{hour}", f"2026-11-24T0{hour}:00:00Z", **each) for hour, each in enumerate(runs)]
    found = find_backup(cron_job(), made, NOW)
    assert (found.failed, found.problem) == (failed, failed)


def test_spans_and_sizes_are_read_by_people():
    assert [span(each) for each in (0, 59, 60, 7199, 86400, 3e6)] == ["0 s", "59 s", "1 min", "1 h", "1 d", "34 d"]
    assert [in_units(each) for each in (0, 1023, 1536, 5 << 30)] == ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]
