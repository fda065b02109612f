"""Jobs of pods that belong to people, on a real Slurm with its accounting: what Slurm allows them, and what they can do
to such a job, or make look like one.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from devcluster.waiting import wait_until
from sunkpy.core.gang.identity import GangId, gang_of
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import Slurm, errors
from tests.integration.slurm.daemons import NODE, TELL_BEGUN, RealAccounting, RealSlurm
from tests.polling import until

pytestmark = pytest.mark.integration

PEOPLE = {"ann": 2001, "bob": 2002, "oda": 2003}
GANG = GangId(namespace="chem", name="web", uid="u-1")
SCRIPT = f"#!/bin/bash\ntrap 'exit 0' USR1\n{TELL_BEGUN}sleep infinity & wait $!\n"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    folder, suite = tmp_path_factory.mktemp("people"), os.environ.get("SLURM_SUITE", "trixie")
    accounting = RealAccounting(folder, suite)
    slurm = RealSlurm(folder, suite, accounting, people=PEOPLE)
    try:
        make_accounts(accounting)
        yield slurm
    finally:
        accounting.stop()
        slurm.stop()


def make_accounts(accounting: RealAccounting) -> None:
    """Make accounts, once slurmctld has registered with slurmdbd."""
    sacctmgr = accounting.sacctmgr
    assert wait_until(lambda: "it" in sacctmgr("show", "cluster", "format=cluster").split(), timeout_s=90, every_s=0.2)
    sacctmgr("add", "account", "chem,phys")
    sacctmgr("add", "qos", "fast")
    sacctmgr("add", "user", "ann", "account=chem", "maxtresperjob=cpu=1")
    sacctmgr("add", "user", "k8s", "account=chem")
    sacctmgr("add", "user", "oda", "account=chem", "adminlevel=operator")


@pytest.fixture
async def scheduler(slurm: RealSlurm) -> AsyncIterator[Slurm]:
    """The client as the scheduler has it."""
    client = Slurm.connect(SlurmSettings(url=slurm.url, user="k8s", jwt_key_file=str(slurm.key_file)))

    async def is_ready() -> bool:
        try:
            nodes = await client.nodes()
            await client.cancel_job((await client.submit_job(pods_job(hold=True), user="ann")).job_id, user="ann")
        except errors.SlurmError:
            return False
        return bool(nodes)

    await until(is_ready, timeout_s=90, what="slurmctld that knows ann's association")
    yield client
    await client.close()


def pods_job(**changes: object) -> JobSpec:
    fields = {"name": "web", "script": SCRIPT, "comment": GANG.comment("text"), "memory_mib_per_node": 10}
    return JobSpec(**{**fields, **changes})  # type: ignore[arg-type]


async def submitted(scheduler: Slurm, user: str = "ann", **changes: object) -> JobId:
    return (await scheduler.submit_job(pods_job(**changes), user=user)).job_id


async def happens(check: Callable[[], Awaitable[bool]], what: str) -> None:
    await until(check, timeout_s=90, what=what)


async def runs(scheduler: Slurm, job_id: JobId) -> None:
    """The job runs, past its Prolog."""

    async def is_running() -> bool:
        job = await scheduler.job(job_id)
        return job.is_running and not job.state_reason

    await happens(is_running, f"job {job_id} to run")


async def has_ended(scheduler: Slurm, job_id: JobId) -> None:
    async def is_ended() -> bool:
        return (await scheduler.job(job_id)).is_ended

    await happens(is_ended, f"job {job_id} to end")


async def test_the_job_is_its_users_and_proved_by_what_they_cannot_write(slurm: RealSlurm, scheduler: Slurm) -> None:
    job_id = await submitted(scheduler)
    await runs(scheduler, job_id)
    job = await scheduler.job(job_id)
    assert (job.user, job.account) == ("ann", "chem")
    assert gang_of(job, scheduler="k8s") == GANG
    assert str(job_id) in slurm.run_as("ann", "squeue", "--noheader", "--me", "--format=%i")[1].split()
    shown = slurm.run_as("bob", "scontrol", "show", "job", str(job_id))[1]
    assert "GroupId=ann" in shown or "GroupId=2001" in shown
    assert "Extra=" not in shown

    async def has_begun() -> bool:
        return slurm.has_begun(job_id)

    await happens(has_begun, "its script to have set its trap")
    await scheduler.signal_job(job_id, "USR1", user="ann")

    async def is_accounted() -> bool:
        command = ("sacct", "--noheader", "--parsable2", "--allocations", "--user=ann", "--format=jobid,state,account")
        return f"{job_id}|COMPLETED|chem" in slurm.run_as("ann", *command)[1].split()

    await happens(is_accounted, "the job in ann's accounting")


async def test_an_allocation_is_its_users_and_proved_as_well(slurm: RealSlurm, scheduler: Slurm) -> None:
    granted = await scheduler.allocate_now(pods_job(), user="ann")
    assert granted is not None, slurm.logs()
    job = await scheduler.job(granted.job_id)
    assert (job.user, job.account, job.is_batch, gang_of(job, scheduler="k8s")) == ("ann", "chem", False, GANG)
    assert "Extra=" not in slurm.run_as("ann", "scontrol", "show", "job", str(granted.job_id))[1]
    code, said = slurm.run_as("ann", "scontrol", "update", f"jobid={granted.job_id}", "comment=mine")
    assert (code, "cannot be changed here" in said) == (1, True)
    await scheduler.cancel_job(granted.job_id, user="ann")
    await has_ended(scheduler, granted.job_id)
    assert await scheduler.allocate_now(pods_job(cpus_per_task=2), user="ann") is None, "her limit holds"
    assert await scheduler.allocate_now(pods_job(), user="bob") is None, "he has no account"


async def test_its_owner_cancels_it_and_nobody_else(slurm: RealSlurm, scheduler: Slurm) -> None:
    job_id = await submitted(scheduler, hold=True)
    assert "denied" in slurm.run_as("bob", "scancel", str(job_id))[1]
    with pytest.raises(errors.Rejected):
        await scheduler.cancel_job(job_id)
    assert slurm.run_as("ann", "scancel", str(job_id))[0] == 0
    await has_ended(scheduler, job_id)


@pytest.mark.parametrize(
    ("changes", "user", "number"),
    [
        ({"account": "phys"}, "ann", 2045),
        ({}, "bob", 2045),
        ({"qos": "fast"}, "ann", 2066),
    ],
)
async def test_what_a_person_may_not_do_in_slurm_their_pod_may_not(
    scheduler: Slurm, changes: dict[str, object], user: str, number: int
) -> None:
    with pytest.raises(errors.Rejected) as refused:
        await submitted(scheduler, user, **changes)
    assert refused.value.error_number == number
    assert f"as {user}" in refused.value.message


async def test_a_limit_of_a_person_holds_for_their_pods(scheduler: Slurm) -> None:
    job_id = await submitted(scheduler, cpus_per_task=2)

    async def waits_for_the_limit() -> bool:
        return (await scheduler.job(job_id)).state_reason == "AssocMaxCpuPerJobLimit"

    await happens(waits_for_the_limit, "the job to wait for its user's limit")
    await scheduler.cancel_job(job_id, user="ann")


@pytest.mark.parametrize("user", ["ghost", "Ann"])
async def test_a_user_whom_slurmctld_does_not_know_is_refused_by_name(scheduler: Slurm, user: str) -> None:
    with pytest.raises(errors.Rejected) as refused:
        await submitted(scheduler, user)
    assert refused.value.error_number in (2166, 6010)
    assert f"as {user}" in refused.value.message
    assert "make the user known where slurmctld runs" in refused.value.message


async def test_nobody_makes_a_job_that_looks_like_one_of_pods(slurm: RealSlurm, scheduler: Slurm) -> None:
    forged = f"--comment={GANG.comment()}"
    for extra in ((), ("--extra=guess",)):
        code, said = slurm.run_as("ann", "sbatch", "--hold", "--output=/dev/null", *extra, forged, "--wrap=true")
        assert (code, "a comment that starts with k8s: says that a job stands for Kubernetes pods" in said) == (1, True)
    code, said = slurm.run_as("ann", "salloc", "--no-shell", "--immediate=1", forged)
    assert (code, "says that a job stands for Kubernetes pods" in said) == (1, True)
    code, said = slurm.run_as("ann", "sbatch", "--parsable", "--hold", "--output=/dev/null", "--mem=10", "--wrap=true")
    own = JobId(int(said.split()[-1]))
    code, said = slurm.run_as("ann", "scontrol", "update", f"jobid={own}", f"comment={GANG.comment()}")
    assert (code, "says that a job stands for Kubernetes pods" in said) == (1, True)
    code, said = slurm.run_as("ann", "scontrol", "update", f"jobid={own}", f"admincomment={GANG.comment()}")
    assert "denied" in said
    assert slurm.run_as("ann", "scontrol", "update", f"jobid={own}", "comment=any")[0] == 0
    assert gang_of(await scheduler.job(own), scheduler="k8s") is None
    await scheduler.cancel_job(own, user="ann")


KEPT = [
    "comment=mine", "comment=", "comment=k8s:other/web:u", "admincomment=", "extra=x", "requeue=1", "numcpus=1",
    "numnodes=1", "numtasks=1", "cpuspertask=1", "mincpusnode=1", "minmemorynode=1", "minmemorycpu=1", "gres=gpu:1",
    "tresperjob=cpu:1", "features=gpu", f"nodelist={NODE}", f"excnodelist={NODE}", "partition=high", "account=chem",
    "qos=normal", "name=other", "dependency=afterok:1", "licenses=x", "reservationname=x", "oversubscribe=yes",
    "mempertres=gpu:1", "cpuspertres=gpu:1", "reqsockets=1", "reqcores=1", "reqthreads=1", "switches=1",
]  # fmt: skip


async def test_its_owner_takes_nothing_from_a_job_that_its_pods_rely_on(slurm: RealSlurm, scheduler: Slurm) -> None:
    pending = await submitted(scheduler, hold=True)
    running = await submitted(scheduler)
    await runs(scheduler, running)
    before = {job_id: await scheduler.job(job_id) for job_id in (pending, running)}
    for job_id in before:
        for change in KEPT:
            code, said = slurm.run_as("ann", "scontrol", "update", f"jobid={job_id}", change)
            assert (code, "cannot be changed here" in said or "denied" in said) == (1, True), (change, said)
        assert slurm.run_as("ann", "scontrol", "requeue", str(job_id))[0] == 1
        assert await scheduler.job(job_id) == before[job_id]
    for change in ("timelimit=5", "nice=7"):
        assert slurm.run_as("ann", "scontrol", "update", f"jobid={pending}", change)[0] == 0, change
    assert slurm.run_as("ann", "scontrol", "release", str(pending))[0] == 0
    for job_id in before:
        await scheduler.cancel_job(job_id, user="ann")


async def test_the_scheduler_changes_it_as_its_owner_within_what_they_may(scheduler: Slurm) -> None:
    job_id = await submitted(scheduler, hold=True)
    await scheduler.exclude_nodes(job_id, [NODE], user="ann")
    await scheduler.update_job(job_id, JobSpec(comment=GANG.comment("other text")), ["comment"], user="ann")
    with pytest.raises(errors.Rejected):
        await scheduler.update_job(job_id, JobSpec(qos="fast"), ["qos"], user="ann")
    job = await scheduler.job(job_id)
    assert (job.excluded_nodes, job.comment) == ((NODE,), GANG.comment("other text"))
    assert gang_of(job, scheduler="k8s") == GANG
    await scheduler.cancel_job(job_id, user="ann")


async def test_the_job_of_a_user_who_is_gone_is_ended_by_slurms_own(slurm: RealSlurm, scheduler: Slurm) -> None:
    job_id = await submitted(scheduler)
    await runs(scheduler, job_id)
    slurm.know({name: uid for name, uid in PEOPLE.items() if name != "ann"})
    try:
        with pytest.raises((errors.Rejected, errors.Unauthorized)):
            await scheduler.cancel_job(job_id, user="ann")
        await scheduler.cancel_job(job_id, user="slurm")
        await has_ended(scheduler, job_id)
    finally:
        slurm.know(PEOPLE)


async def test_jobs_of_the_schedulers_own_user_are_as_they_were(scheduler: Slurm) -> None:
    job_id = (await scheduler.submit_job(pods_job(hold=True))).job_id
    job = await scheduler.job(job_id)
    assert (job.user, job.admin_comment, gang_of(job, scheduler="k8s")) == ("k8s", "", GANG)
    await scheduler.update_job(job_id, JobSpec(comment=GANG.comment("other text")), ["comment"])
    await scheduler.exclude_nodes(job_id, [NODE])
    await scheduler.cancel_job(job_id)


async def test_an_operator_makes_no_job_of_pods_and_takes_nothing_from_one(slurm: RealSlurm, scheduler: Slurm) -> None:
    """Root and SlurmUser may: theirs is all of Slurm, this script too."""
    job_id = await submitted(scheduler, hold=True)
    code, said = slurm.run_as("oda", "scontrol", "update", f"jobid={job_id}", "comment=mine")
    assert (code, "cannot be changed here" in said) == (1, True)
    assert slurm.run_as("oda", "scontrol", "update", f"jobid={job_id}", "admincomment=k8s:other/web:u")[0] == 1
    assert slurm.run_as("slurm", "scontrol", "update", f"jobid={job_id}", "comment=mine")[0] == 0
    job = await scheduler.job(job_id)
    assert (job.comment, gang_of(job, scheduler="k8s")) == ("mine", GANG)
    assert slurm.run_as("oda", "scancel", str(job_id))[0] == 0
    own = JobId(int(slurm.run_as("oda", "sbatch", "--parsable", "--hold", "--mem=10", "--wrap=true")[1].split()[-1]))
    slurm.run_as("oda", "scontrol", "update", f"jobid={own}", f"admincomment={GANG.comment()}")
    assert gang_of(await scheduler.job(own), scheduler="k8s") is None
    await scheduler.cancel_job(own, user="oda")
