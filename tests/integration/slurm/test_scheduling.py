"""Slurm's own scheduling holds for pods: their jobs, as the scheduler submits them for people, beside those of sbatch.

All of it on the chart's own configuration.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.request import PLACEHOLDER_SCRIPT
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.slurm import Slurm, errors
from tests.integration.slurm.site import VALUES, Site
from tests.polling import until

pytestmark = pytest.mark.integration

_numbers = count(1)
BY_QOS = VALUES | {
    "slurmConfig": VALUES["slurmConfig"] | {"conf": VALUES["slurmConfig"]["conf"] | {"PreemptType": "preempt/qos"}}
}


def pods_job(**changes: object) -> JobSpec:
    gang = GangId(namespace="chem", name=f"pod-{next(_numbers)}", uid="u")
    fields = {"name": gang.name, "script": PLACEHOLDER_SCRIPT, "comment": gang.comment(), "memory_mib_per_node": 10}
    return JobSpec(**{**fields, **changes})  # type: ignore[arg-type]


async def submitted(scheduler: Slurm, user: str, **changes: object) -> JobId:
    return (await scheduler.submit_job(pods_job(**changes), user=user)).job_id


def sbatch(site: Site, user: str, *options: str) -> JobId:
    script = f"cd; sbatch --parsable --output=/dev/null --mem=10 {' '.join(options)}"
    code, said = site.shell(user, script if "--wrap" in script else f"{script} --wrap='sleep 100'")
    assert code == 0, said
    return JobId(int(said.split()[-1]))


async def happens(check: Callable[[], Awaitable[bool]], what: str) -> None:
    await until(check, timeout_s=60, what=what)


async def job_is(scheduler: Slurm, job_id: JobId, check: Callable[[SlurmJob], bool]) -> None:
    async def is_so() -> bool:
        return check(await scheduler.job(job_id))

    try:
        await happens(is_so, f"job {job_id}")
    except TimeoutError as error:
        raise AssertionError(f"{error}: {await scheduler.job(job_id)}") from None


async def runs(scheduler: Slurm, job_id: JobId) -> None:
    await job_is(scheduler, job_id, lambda job: job.is_running)


async def waits_for(scheduler: Slurm, job_id: JobId, reason: str) -> None:
    await job_is(scheduler, job_id, lambda job: job.is_pending and job.state_reason == reason)


async def ended_as(scheduler: Slurm, job_id: JobId, state: str) -> None:
    await job_is(scheduler, job_id, lambda job: job.is_ended and state in job.state)


async def forget_usage(site: Site) -> None:
    """Nobody has used anything yet, whatever the jobs of other tests have."""
    site.accounting.sacctmgr("modify", "account", "where", "name=chem,phys", "cluster=it", "set", "rawusage=0")
    admin = site.connect("slurm")

    async def is_forgotten() -> bool:
        return not any(share.usage_s for share in await admin.shares() if share.user in ("ann", "bob"))

    try:
        await happens(is_forgotten, "what was used to be forgotten")
    finally:
        await admin.close()


async def test_pods_of_the_account_that_used_less_go_first(site: Site, scheduler: Slurm) -> None:
    await forget_usage(site)
    code, said = site.shell("ann", "cd; srun --ntasks=32 --mem-per-cpu=10 sleep 2")
    assert code == 0, said
    await site.restart()
    whole = {"partition": "gpu", "shared": "none"}
    blocking = await submitted(scheduler, "ann", **whole)
    await runs(scheduler, blocking)
    heavy, light = await submitted(scheduler, "ann", **whole), await submitted(scheduler, "bob", **whole)
    await waits_for(scheduler, heavy, "Priority")
    assert (await scheduler.job(light)).priority > (await scheduler.job(heavy)).priority
    await scheduler.cancel_job(blocking, user="ann")
    await runs(scheduler, light)
    assert (await scheduler.job(heavy)).is_pending


async def test_a_limit_of_a_qos_counts_jobs_and_pods_of_a_person_together(site: Site, scheduler: Slurm) -> None:
    own = sbatch(site, "ann", "--qos=small")
    await runs(scheduler, own)
    assert await scheduler.allocate_now(pods_job(qos="small"), user="ann") is None
    pods = await submitted(scheduler, "ann", qos="small")
    await waits_for(scheduler, pods, "QOSMaxJobsPerUserLimit")
    await scheduler.cancel_job(own, user="ann")
    await runs(scheduler, pods)
    own = sbatch(site, "ann", "--qos=small")
    await waits_for(scheduler, own, "QOSMaxJobsPerUserLimit")
    with pytest.raises(errors.Rejected):
        await submitted(scheduler, "ann", qos="strict", cpus_per_task=2)


async def test_a_reservation_is_for_the_pods_of_those_who_have_it(site: Site, scheduler: Slurm) -> None:
    made = ("reservation=anns", "users=ann", "starttime=now", "duration=60", "nodes=c3")
    assert site.slurm.run_as("slurm", "scontrol", "create", *made)[0] == 0
    try:
        pods = await submitted(scheduler, "ann", reservation="anns")
        await runs(scheduler, pods)
        assert (await scheduler.job(pods)).nodes == ("c3",)
        outside = await submitted(scheduler, "bob", required_nodes=("c3",))
        await waits_for(scheduler, outside, "ReqNodeNotAvail")
        with pytest.raises(errors.Rejected) as refused:
            await submitted(scheduler, "bob", reservation="anns")
        assert "reservation anns" in refused.value.message
    finally:
        await site.clear()
        assert site.slurm.run_as("slurm", "scontrol", "delete", "reservation=anns")[0] == 0


async def test_short_pods_run_within_seconds_before_a_wide_job_that_waits(site: Site, scheduler: Slurm) -> None:
    first = await submitted(scheduler, "ann", shared="none", required_nodes=("c1",), time_limit_min=60)
    await runs(scheduler, first)
    wide = sbatch(site, "ann", "--nodes=3", "--exclusive", "--qos=urgent", "--time=10")
    await waits_for(scheduler, wide, "Resources")
    long = await submitted(scheduler, "bob", time_limit_min=600)
    began_s = time.monotonic()
    for _ in range(2):  # Slurm's own backfill comes each half minute
        await runs(scheduler, await submitted(scheduler, "bob", time_limit_min=5))
    assert time.monotonic() - began_s < 25
    waiting = await scheduler.job(long)
    assert (waiting.is_pending, waiting.state_reason) == (True, "Priority")


async def test_a_higher_partition_preempts_pods_and_a_qos_where_slurm_is_told_so(site: Site, scheduler: Slurm) -> None:
    whole = {"shared": "none", "required_nodes": ("c1",)}
    urgent = ("--qos=urgent", "--exclusive", "--nodelist=c1")
    pods = await submitted(scheduler, "bob", **whole)
    await runs(scheduler, pods)
    waiting = sbatch(site, "ann", *urgent)
    await waits_for(scheduler, waiting, "Resources")
    await runs(scheduler, sbatch(site, "bob", "--partition=high", "--exclusive", "--nodelist=c1"))
    await ended_as(scheduler, pods, "PREEMPTED")
    await site.clear()
    try:
        await site.restart(BY_QOS)
        pods = await submitted(scheduler, "bob", **whole)
        await runs(scheduler, pods)
        by_partition = sbatch(site, "bob", "--partition=high", "--exclusive", "--nodelist=c1")
        await waits_for(scheduler, by_partition, "Resources")
        await runs(scheduler, sbatch(site, "ann", *urgent))
        await ended_as(scheduler, pods, "PREEMPTED")
    finally:
        await site.restart()


async def test_a_job_waits_for_the_end_of_pods(site: Site, scheduler: Slurm) -> None:
    # One word more in the script tells when the traps are set.
    script = PLACEHOLDER_SCRIPT.replace("held=$!", "held=$!; touch /home/ann/trapped", 1)
    pods = await submitted(scheduler, "ann", script=script)
    after = sbatch(site, "bob", f"--dependency=afterok:{pods}", "--wrap=true")
    await waits_for(scheduler, after, "Dependency")

    async def is_trapped() -> bool:
        return (site.slurm.root / "home/ann/trapped").exists()

    await happens(is_trapped, "the script to have set its traps")
    await scheduler.signal_job(pods, "USR1", user="ann")
    await ended_as(scheduler, after, "COMPLETED")


async def test_pods_wait_for_the_end_of_a_job(site: Site, scheduler: Slurm) -> None:
    before, failing = sbatch(site, "bob"), sbatch(site, "bob", "--wrap=false")
    pods = await submitted(scheduler, "ann", dependency=f"afterany:{before}")
    never = await submitted(scheduler, "ann", dependency=f"afterok:{failing}")
    either = await submitted(scheduler, "ann", dependency=f"afterok:{before}?afternotok:{failing}")
    changed, freed = [await submitted(scheduler, "ann", dependency=f"afterok:{before}") for _ in range(2)]
    assert await scheduler.allocate_now(pods_job(dependency=f"afterany:{before}"), user="ann") is None
    await waits_for(scheduler, never, "DependencyNeverSatisfied")
    await runs(scheduler, either)
    for job_id, dependency in ((changed, f"afternotok:{failing}"), (freed, "")):
        assert (await scheduler.job(job_id)).is_pending
        await scheduler.update_job(job_id, JobSpec(dependency=dependency), ["dependency"], user="ann")
        await runs(scheduler, job_id)
    assert (await scheduler.job(pods)).state_reason == "Dependency"
    await scheduler.cancel_job(before, user="bob")
    await runs(scheduler, pods)


async def test_pods_that_wait_for_a_job_that_slurm_does_not_know_are_refused_by_its_number(scheduler: Slurm) -> None:
    with pytest.raises(errors.Rejected) as refused:
        await submitted(scheduler, "ann", dependency="afterok:4242424")
    assert refused.value.error_number == 2038
    assert "(dependency afterok:4242424)" in refused.value.message
    assert "Slurm forgets jobs some minutes after their end" in refused.value.message


async def test_jobs_that_people_may_not_see_are_seen_by_who_reads_for_the_scheduler(
    site: Site, scheduler: Slurm
) -> None:
    private = VALUES | {
        "slurmConfig": VALUES["slurmConfig"] | {"conf": VALUES["slurmConfig"]["conf"] | {"PrivateData": ["jobs"]}}
    }
    await site.restart(private)
    reader = site.connect("k8s", reader="slurm")
    try:
        job_id = await submitted(scheduler, "ann", hold=True)
        assert job_id in await reader.jobs_state()
        assert (await reader.job(job_id)).user == "ann"
        assert str(job_id) not in site.shell("bob", "squeue --noheader --format=%i")[1].split()
    finally:
        await reader.close()
        await site.restart()
