"""`sunkpy backups` over HTTP, against the double of the apiserver."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.unit.cli.installed import cron_job, installed, made_before, run_of_backup
from tests.unit.cli.test_overview import shown


@pytest.fixture
def world():
    return installed()


async def test_what_the_last_run_reported_is_a_row(world, tmp_path):
    stamp, _ = made_before(1)
    world.put("pods", run_of_backup(files=[[stamp, 5 << 20, "both"]]))
    code, text = await shown(world, tmp_path, "backups", "-n", "slurm", asks_slurm=False)
    titles, row = text.splitlines()
    assert code == 0
    assert titles.split("   ")[0] == "OF"
    assert [each.strip() for each in row.split("   ") if each] == [
        "database", stamp, "1 h", "5.0 MiB", "1", "-", "3.0 GiB", "ok",
    ]  # fmt: skip


async def test_wide_each_backup_is_a_row_and_where_it_is(world, tmp_path):
    files = [["20260802T031700Z", 3 << 20, "both"], ["20260801T031700Z", 0, "bucket", False]]
    world.put("pods", run_of_backup(bucket="https://s3/b/", files=files))
    code, text = await shown(world, tmp_path, "backups", "list", "-o", "wide", asks_slurm=False)
    *_, newest, oldest = text.splitlines()
    assert code == 0
    assert newest.split() == ["database", "20260802T031700Z", "3.0", "MiB", "both", "-"]
    assert oldest.split() == ["database", "20260801T031700Z", "-", "bucket", "NO"]


async def test_what_went_wrong_last_is_said_with_an_exit_code(world, tmp_path):
    """The newest report stays, whoever left it."""
    world.put("pods", run_of_backup("run-2", ended=0.5, code=1, error="no new backup in /backup, where 0 of 8 bytes"))
    code, text = await shown(world, tmp_path, "backups", asks_slurm=False)
    assert code == 1
    assert text.endswith("slurm/slurm-backup: no new backup in /backup, where 0 of 8 bytes\n")
    world.put("pods", run_of_backup("run-3", ended=0.1, code=137, message=""))
    code, text = await shown(world, tmp_path, "backups", asks_slurm=False)
    assert text.endswith("slurm/slurm-backup: exit code 137; its log has the reason: kubectl logs run-3\n")
    assert "5.0 MiB" in text


@pytest.mark.parametrize(
    ("cron", "says"),
    [
        (cron_job(succeeded=72), "no run has succeeded for 3 d: kubectl describe cronjob slurm-backup"),
        (cron_job(succeeded=None), "no run has succeeded yet: kubectl describe cronjob slurm-backup"),
        (cron_job(suspend=True), "CronJob slurm-backup is suspended"),
    ],
)
async def test_backups_that_are_not_made_are_said(world, tmp_path, cron, says):
    world.put("cronjobs", cron)
    code, text = await shown(world, tmp_path, "backups", asks_slurm=False)
    assert (code, text.splitlines()[-1]) == (1, f"slurm/slurm-backup: {says}")
    code, text = await shown(world, tmp_path, "doctor")
    assert (code, f"failed    backups: slurm/slurm-backup: {says}\n" in text) == (2, True)


async def test_without_a_cron_job_that_is_said(world, tmp_path):
    world.remove("cronjobs", "slurm", "slurm-backup")
    code, text = await shown(world, tmp_path, "backups", asks_slurm=False)
    assert (code, text.startswith("No CronJob makes backups: enable ")) == (1, True)
    code, text = await shown(world, tmp_path, "doctor")
    assert (code, "warning   backups: no CronJob of the charts makes backups\n" in text) == (1, True)


async def test_verify_runs_a_job_in_the_place_of_a_backup(world, tmp_path):
    asking = asyncio.ensure_future(shown(world, tmp_path, "backups", "verify", "-o", "json", asks_slurm=False))
    await world.api.until(lambda: world.api.names("jobs"))
    (name,) = world.api.names("jobs")
    job = world.api.find("jobs", name)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["/usr/local/bin/backup-mariadb", "verify"]
    assert container["env"] == [{"name": "A", "value": "b"}]
    assert (job["spec"]["backoffLimit"], "ownerReferences" in job["metadata"]) == (0, False)
    files = [["20260802T031700Z", 3, "volume", True], ["20260801T031700Z", 4, "volume", False]]
    run = run_of_backup(f"{name}-x", code=1, job=name, files=files, error="1 of 2 backups are not whole")
    world.put("pods", run)
    code, text = await asking
    (found,) = json.loads(text)["backups"]
    assert (code, found["problem"]) == (1, "1 of 2 backups are not whole")
    assert [each[3] for each in found["report"]["files"]] == [True, False]


async def test_a_verification_does_not_hide_that_the_last_backup_failed(world, tmp_path):
    """Neither in its own answer, nor in those after it, while its Job is still there."""
    world.put("pods", run_of_backup("run-2", ended=0.5, code=1, files=[], error="the dump broke off"))
    asking = asyncio.ensure_future(shown(world, tmp_path, "backups", "verify", asks_slurm=False))
    await world.api.until(lambda: world.api.names("jobs"))
    (name,) = world.api.names("jobs")
    template = world.api.find("jobs", name)["spec"]["template"]
    assert template["metadata"]["labels"].items() >= cron_job()["metadata"]["labels"].items()
    verification = run_of_backup(f"{name}-x", ended=0.1, job=name, files=[["20260801T031700Z", 4, "volume", True]])
    verification["metadata"]["labels"] |= template["metadata"]["labels"]
    world.put("pods", verification)
    code, text = await asking
    assert (code, text.splitlines()[-1]) == (1, "slurm/slurm-backup: the dump broke off")
    assert "20260801T031700Z   4 B    volume   yes" in text
    code, text = await shown(world, tmp_path, "backups", asks_slurm=False)
    assert (code, text.splitlines()[-1]) == (1, "slurm/slurm-backup: the dump broke off")


async def test_verify_says_what_did_not_end(world, tmp_path):
    code, text = await shown(world, tmp_path, "backups", "verify", "--limit", "0", asks_slurm=False)
    assert code == 1
    assert "slurm/slurm-backup: the backup was not read within 0 s: kubectl describe job slurm-backup-verify-" in text


async def test_who_may_make_no_job_is_told_so(world, tmp_path):
    world.api.forbidden.add("jobs")
    code, text = await shown(world, tmp_path, "backups", "verify", asks_slurm=False)
    assert (code, text.startswith("sunkpy: POST /apis/batch/v1/namespaces/slurm/jobs: ")) == (1, True)
