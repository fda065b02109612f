"""Accounts on a real slurmdbd and a real MariaDB: values come true, limits hold, nothing is lost when parts die."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from sunkpy.accounts.collect import plan_now
from sunkpy.accounts.execute import execute
from sunkpy.accounts.loop import AccountsLoop
from sunkpy.accounts.metrics import AccountsMetrics
from sunkpy.accounts.settings import AccountsSettings
from sunkpy.cli.canary import Patience, run_job
from sunkpy.core.accounts import WantedAccounts, describe_plan
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import NodeChange, Slurm, errors
from sunkpy.slurm.nodes import RESUME, UNDRAIN
from tests.integration.slurm.daemons import NODE, RealAccounting, RealSlurm
from tests.polling import until

pytestmark = pytest.mark.integration

CLUSTER = "it"
PAGE = Path(__file__).parents[3] / "docs/tasks/remove-a-person.md"
VALUES = """
organizations: [science]
qos:
  fast: {priority: 100, preempts: [slow], preemptMode: REQUEUE, flags: [DenyOnLimit, NoReserve], perUser: {jobs: 1, tres: {gres/gpu: 2}}}
  slow: {description: Anybody's, limits: {tres: {cpu: 100, node: 4}, jobMinutes: 60, submitted: 50}}
accounts:
  chem: {description: "Chemistry, \\"O'Hara\\" & Ümlaut", organization: science, shares: 10, qos: [normal, fast, slow]}
  cells: {parent: chem, shares: 3, limits: {jobs: 5, tres: {cpu: 8}, tresMinutes: {gres/gpu: 1000}, jobTres: {cpu: 2}}}
  phys: {shares: parent}
users:
  user1: {accounts: {chem: {shares: 4, defaultQos: slow}, cells: {}}, defaultAccount: chem}
  zoe: {accounts: {phys: {limits: {jobMinutes: 30}}}}
pods: {account: phys}
"""  # noqa: E501
KEEPS = """
set -m; rm -f /tmp/kept; keep-default-accounts 1 > /tmp/kept & keeps=$!
until scontrol show assoc_mgr flags=users | grep -q 'UserName=guest(2010) DefAccount=[a-z]'; do sleep 0.2; done
sleep 3; kill -- -$keeps; cat /tmp/kept
"""


class Running:
    """All daemons, and the accounts process without its Lease."""

    def __init__(self, folder, suite: str) -> None:
        self.accounting = RealAccounting(folder, suite)
        self.slurm = RealSlurm(folder, suite, self.accounting)

    def connect(self, user: str) -> Slurm:
        settings = SlurmSettings(url=self.slurm.url, user=user, jwt_key_file=str(self.slurm.key_file))
        return Slurm.connect(settings)

    def logs(self) -> str:
        return f"{self.slurm.logs()}\n{self.accounting.logs()}"

    def stop(self) -> None:
        self.accounting.stop()
        self.slurm.stop()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    running = Running(tmp_path_factory.mktemp("accounting"), os.environ.get("SLURM_SUITE", "trixie"))
    yield running
    running.stop()


@pytest.fixture
async def admin(running: Running) -> AsyncIterator[Slurm]:
    slurm = running.connect("slurm")
    await happens(running, lambda: _registered(slurm))
    yield slurm
    await slurm.close()


@pytest.fixture
async def user1(running: Running) -> AsyncIterator[Slurm]:
    slurm = running.connect("user1")
    yield slurm
    await slurm.close()


async def happens(running: Running, check: Callable[[], Awaitable[bool]]) -> None:
    try:
        await until(check, timeout_s=30, what="what the test waits for")
    except TimeoutError as error:
        raise AssertionError(f"{error}:\n{running.logs()}") from None


async def _registered(slurm: Slurm) -> bool:
    try:
        return ("root", "") in (await slurm.accounting(CLUSTER)).associations and bool(await slurm.shares())
    except errors.SlurmError:
        return False


def wanted(text: str = VALUES, **changes: object) -> WantedAccounts:
    return msgspec.structs.replace(msgspec.yaml.decode(text, type=WantedAccounts), **changes)


async def settle(slurm: Slurm, values: WantedAccounts) -> AccountsLoop:
    unused = SlurmSettings(url="http://nowhere", jwt_key_file="/nowhere")
    settings = AccountsSettings(cluster=CLUSTER, slurm=unused, wanted=values)
    loop = AccountsLoop(slurm=slurm, settings=settings, metrics=AccountsMetrics(CollectorRegistry()))
    assert await loop.settle(), describe_plan(await plan_now(slurm, values, cluster=CLUSTER))
    return loop


def job(**changes: object) -> JobSpec:
    fields = {"name": "j", "script": "#!/bin/sh\nsleep 0.2\n", "comment": "k8s:a/b:uid", "memory_mib_per_node": 10}
    return JobSpec(**{**fields, **changes})  # type: ignore[arg-type]


async def is_closed(running: Running, slurm: Slurm, account: str, **changes: object) -> None:
    """slurmdbd tells slurmctld a moment after it has answered."""

    async def is_refused() -> bool:
        try:
            await slurm.cancel_job((await slurm.submit_job(job(account=account, hold=True, **changes))).job_id)
        except errors.Rejected as error:
            return error.error_number == 2050
        return False

    await happens(running, is_refused)


async def ends(running: Running, slurm: Slurm, job_id: JobId) -> None:
    async def has_ended() -> bool:
        return (await slurm.job(job_id)).is_ended

    await happens(running, has_ended)


async def test_values_come_true_in_one_pass_and_a_second_finds_nothing_to_do(running: Running, admin: Slurm) -> None:
    with pytest.raises(errors.Rejected, match="2045"):
        await admin.submit_job(job(account="chem"))
    loop = await settle(admin, wanted())
    assert loop.problem is None
    assert describe_plan(await plan_now(admin, wanted(), cluster=CLUSTER)) == "Nothing to change."
    shown = running.accounting.sacctmgr(
        "show", "assoc", "format=account,parentname,user,share,defaultqos,grptres,maxtres"
    )
    assert {
        "chem|root||10|normal||",
        "cells|chem||3|normal|cpu=8|cpu=2",
        "chem||user1|4|slow||",
        "phys||k8s|parent|normal||",
    } <= set(shown.splitlines())
    preempts = running.accounting.sacctmgr(
        "show", "qos", "fast", "format=name,priority,preempt,preemptmode,maxtrespu,maxjobspu"
    )
    assert preempts.split() == ["fast|100|slow|requeue|gres/gpu=2|1"]


async def test_changed_and_lifted_values_come_true_too(running: Running, admin: Slurm) -> None:
    """Also what Slurm's API makes hard: limits that go, a parent that moves below its own child."""
    await settle(admin, wanted())
    other = """
    qos:
      fast: {priority: 7, preempts: [slow], perAccount: {submitted: 9}}
      slow: {limits: {tres: {cpu: 50}}}
    accounts:
      cells: {shares: 30, qos: [normal, slow]}
      chem: {parent: cells, organization: ""}
      phys: {limits: {submitted: 7}}
    users:
      user1: {accounts: {chem: {}, cells: {shares: parent}, phys: {}}, defaultAccount: phys}
      zoe: {accounts: {phys: {}}}
    pods: {account: chem}
    """
    await settle(admin, wanted(other))
    assert describe_plan(await plan_now(admin, wanted(other), cluster=CLUSTER)) == "Nothing to change."
    await settle(admin, wanted())


async def test_a_user_who_is_not_wanted_any_more_submits_nothing_and_is_let_in_again_with_their_usage(
    running: Running, admin: Slurm, user1: Slurm
) -> None:
    await settle(admin, wanted())
    first = (await user1.submit_job(job(script="#!/bin/sh\nsleep 2\n"))).job_id
    await ends(running, user1, first)

    async def is_counted() -> bool:
        return any(share.user == "user1" and share.usage_s > 0 for share in await admin.shares())

    await happens(running, is_counted)
    await settle(admin, wanted(users={}))
    for account in ("", "chem", "cells"):
        await is_closed(running, user1, account)
    assert await is_counted()
    await settle(admin, wanted())
    await ends(running, user1, (await user1.submit_job(job())).job_id)


async def test_what_somebody_else_made_is_left_alone(running: Running, admin: Slurm) -> None:
    sacctmgr = running.accounting.sacctmgr
    sacctmgr("add", "account", "theirs", "description=by hand", "fairshare=77")
    sacctmgr("add", "user", "ann", "account=theirs", "fairshare=5", "maxjobs=3")
    before = sacctmgr("show", "assoc", "account=theirs", "format=account,user,share,maxjobs,comment")
    values = wanted()
    accounts = {**values.accounts, "theirs": values.accounts["phys"]}
    users = {**values.users, "ann": msgspec.convert({"accounts": {"theirs": {"shares": 1}}}, type(values.users["zoe"]))}
    claimed = msgspec.structs.replace(values, accounts=accounts, users=users)
    await settle(admin, claimed)
    told = describe_plan(await plan_now(admin, claimed, cluster=CLUSTER))
    assert "! account theirs was made by somebody else" in told
    assert "! user ann in account theirs was made by somebody else" in told
    await settle(admin, values)
    after = sacctmgr("show", "assoc", "account=theirs", "format=account,user,share,maxjobs,comment")
    assert set(before.splitlines()) <= set(after.splitlines())
    # As the message says.
    sacctmgr("modify", "account", "theirs", "set", "description=k8s: theirs")
    sacctmgr("modify", "user", "ann", "where", "account=theirs", "set", "comment=k8s: values")
    told = describe_plan(await plan_now(admin, claimed, cluster=CLUSTER))
    assert "somebody else" not in told
    assert "~ user ann in account theirs: shares 5 -> 1" in told


async def test_a_limit_of_a_qos_holds(running: Running, admin: Slurm, user1: Slurm) -> None:
    await settle(admin, wanted())
    long = job(qos="fast", script="#!/bin/sh\nsleep 60\n")
    first = (await user1.submit_job(long)).job_id
    second = (await user1.submit_job(long)).job_id

    async def waits_for_its_qos() -> bool:
        return "QOSMaxJobsPerUserLimit" in (await user1.job(second)).state_reason

    await happens(running, waits_for_its_qos)
    for each in (first, second):
        await user1.cancel_job(each)
        await ends(running, user1, each)


async def test_slurmdbd_has_the_end_of_a_canary_job_as_slurmctld_has_it(
    running: Running, admin: Slurm, user1: Slurm
) -> None:
    await settle(admin, wanted())
    canary = await run_job(user1, Patience(limit_s=40))
    assert canary.job is not None, canary
    assert canary.record is not None, running.logs()
    assert (canary.record.state, canary.record.nodes) == ({"COMPLETED"}, canary.job.nodes)
    assert await user1.job_record(JobId(99_999)) is None


async def test_slurm_works_on_while_database_and_slurmdbd_are_dead_and_nothing_is_lost(
    running: Running, admin: Slurm, user1: Slurm
) -> None:
    accounting = running.accounting
    await settle(admin, wanted())
    for victim in (accounting.mariadb, accounting.slurmdbd):
        victim.kill()
        victim.wait()
    while_away = [(await user1.submit_job(job())).job_id for _ in range(3)]
    for each in while_away:
        await ends(running, user1, each)
    with pytest.raises(errors.Unreachable):
        await admin.accounting(CLUSTER)
    accounting.start_mariadb()
    await asyncio.to_thread(accounting.start_slurmdbd)

    async def all_are_recorded() -> bool:
        query = f"SELECT id_job, state FROM {CLUSTER}_job_table WHERE id_job >= {while_away[0]}"
        rows = accounting.in_database("mariadb", "-N", "-e", query, "slurm_acct_db").splitlines()
        return sorted(rows) == [f"{each}\t3" for each in while_away]

    await happens(running, all_are_recorded)


async def test_a_backup_brings_back_what_was_lost(running: Running, admin: Slurm, user1: Slurm) -> None:
    accounting = running.accounting
    await settle(admin, wanted())
    before = accounting.sacctmgr("show", "assoc", "format=account,user,share,qos")
    assert "bytes" in accounting.in_database("backup-mariadb")
    await settle(admin, wanted(users={}, accounts={}))
    assert accounting.sacctmgr("show", "assoc", "format=account,grpsubmit").count("|0") > 1
    accounting.in_database("restore-mariadb")
    accounting.slurmdbd.terminate()
    accounting.slurmdbd.wait()
    await asyncio.to_thread(accounting.start_slurmdbd)
    assert accounting.sacctmgr("show", "assoc", "format=account,user,share,qos") == before
    await is_closed(running, user1, "chem")  # slurmctld does not read a restored database by itself
    await restart_slurmctld(running)

    async def is_open() -> bool:
        try:
            await user1.cancel_job((await user1.submit_job(job(account="chem", hold=True))).job_id)
        except errors.SlurmError:
            return False
        return True

    await happens(running, is_open)
    await settle(admin, wanted())


async def test_who_is_no_administrator_of_slurm_changes_nothing(user1: Slurm, admin: Slurm) -> None:
    values = wanted(users={})
    plan = await plan_now(user1, values, cluster=CLUSTER)
    assert plan.changes
    with pytest.raises(errors.Rejected):
        await execute(user1, plan.changes[:1], cluster=CLUSTER)
    assert (await plan_now(admin, wanted(), cluster=CLUSTER)).changes == ()


async def test_somebody_whose_account_came_before_them_submits_when_they_are_there(
    running: Running, admin: Slurm, user1: Slurm
) -> None:
    """Neither slurmctld nor slurmdbd, which did not know the user, is reconfigured or restarted."""
    await settle(admin, wanted())
    running.accounting.sacctmgr("add", "user", "newcomer", "account=phys")
    people = running.slurm.root / "var/lib/extrausers"
    (people / "passwd").write_text("newcomer:*:2009:2009::/home/newcomer:/bin/bash\n")
    (people / "group").write_text("newcomer:*:2009:\n")
    submit = ("sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", "--wrap=true")
    submitted = await asyncio.to_thread(running.slurm.as_user, 2009, *submit)
    await ends(running, user1, JobId(int(submitted)))
    listed = ("sacct", "-X", "--noheader", "--parsable2", "--format=jobid,user,group,account")
    assert await asyncio.to_thread(running.slurm.as_user, 2009, *listed) == f"{submitted}|newcomer|newcomer|phys"


async def test_the_jobs_of_somebody_who_is_removed_end_by_their_number(
    running: Running, admin: Slurm, user1: Slurm
) -> None:
    people = running.slurm.root / "var/lib/extrausers"
    leaver = VALUES.replace("  zoe:", "  leaver: {accounts: {phys: {}}}\n  zoe:")
    (people / "passwd").write_text("leaver:*:2011:2011::/home/leaver:/bin/bash\n")
    (people / "group").write_text("leaver:*:2011:\n")
    await settle(admin, wanted(leaver))
    submit = ("sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", "--hold", "--wrap=true")
    alone = await asyncio.to_thread(running.slurm.as_user, 2011, *submit)
    tasks = await asyncio.to_thread(running.slurm.as_user, 2011, *submit, "--array=0-2")

    (people / "passwd").write_text("")
    await settle(admin, wanted())
    (told,) = re.findall(r'slurm-admin bash -c "(.+)"', PAGE.read_text())
    await asyncio.to_thread(running.slurm.as_user, 401, "bash", "-c", told.replace("2001", "2011"))
    for job in (alone, tasks):
        await ends(running, user1, JobId(int(job)))


async def test_somebody_who_was_away_while_slurmctld_started_has_their_default_account_again(
    running: Running, admin: Slurm, user1: Slurm
) -> None:
    people = running.slurm.root / "var/lib/extrausers"
    here = "guest:*:2010:2010::/home/guest:/bin/bash\n"
    guest = VALUES.replace("  zoe:", "  guest: {accounts: {phys: {}}}\n  zoe:")
    submit = ("sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", "--wrap=true")
    (people / "group").write_text("guest:*:2010:\n")
    (people / "passwd").write_text(here)
    await settle(admin, wanted(guest))
    await ends(running, user1, JobId(int(await asyncio.to_thread(running.slurm.as_user, 2010, *submit))))

    (people / "passwd").write_text("")
    await settle(admin, wanted())
    await start_before_slurmdbd(running)
    await happens(running, lambda: is_known_as(running, "guest(4294967294) DefAccount=(null)"))
    (people / "passwd").write_text(here)
    await settle(admin, wanted(guest.replace("  phys:", "  more: {shares: 2}\n  phys:")))
    with pytest.raises(AssertionError, match="Invalid account"):
        await asyncio.to_thread(running.slurm.as_user, 2010, *submit)

    told = await asyncio.to_thread(running.slurm.as_user, 401, "timeout", "60", "bash", "-c", KEEPS)
    assert told.count("default account of guest") == 1
    await ends(running, user1, JobId(int(await asyncio.to_thread(running.slurm.as_user, 2010, *submit))))


async def start_before_slurmdbd(running: Running) -> None:
    """slurmctld starts with its saved state, and gets the accounts later."""
    running.accounting.slurmdbd.kill()
    running.accounting.slurmdbd.wait()
    await restart_slurmctld(running)

    async def answers() -> bool:
        code, _ = await asyncio.to_thread(running.slurm.run_as, "slurm", "scontrol", "show", "assoc_mgr", "flags=users")
        return code == 0

    await happens(running, answers)
    await asyncio.to_thread(running.accounting.start_slurmdbd)


async def restart_slurmctld(running: Running) -> None:
    before = running.slurm.starts("slurmctld")
    running.slurm.send("TERM", "slurmctld")

    async def has_started() -> bool:
        return running.slurm.starts("slurmctld") > before

    await happens(running, has_started)


async def is_known_as(running: Running, words: str) -> bool:
    told = await asyncio.to_thread(running.slurm.run_as, "slurm", "scontrol", "show", "assoc_mgr", "flags=users")
    return words in told[1]


@pytest.mark.parametrize("lift", [UNDRAIN, RESUME])
@pytest.mark.parametrize("is_busy", [False, True])
async def test_what_a_lift_leaves_of_a_reason(
    running: Running, admin: Slurm, user1: Slurm, is_busy: bool, lift: NodeChange
) -> None:
    """Nothing, with accounting; without it Slurm 24.11 leaves the reason (`test_real_slurm`)."""
    await settle(admin, wanted())
    jobs = [(await user1.submit_job(job(script="#!/bin/sh\nsleep 60\n"))).job_id] if is_busy else []

    async def is_as_wanted() -> bool:
        return (await admin.node(NODE)).is_busy == is_busy

    await happens(running, is_as_wanted)
    await admin.drain_node(NODE, "bad gpu")
    await admin.update_nodes([NODE], lift)
    node = await admin.node(NODE)
    for each in jobs:
        await admin.cancel_job(each)
    assert (node.is_drain, node.reason) == (False, "")


async def test_limits_of_a_partitions_qos_open_nothing_that_is_closed(
    running: Running, admin: Slurm, user1: Slurm
) -> None:
    """Neither to a user who is not wanted any more, nor in a QoS that is not wanted any more."""
    sacctmgr = running.accounting.sacctmgr
    limited = "  limited: {limits: {submitted: 1000}, perUser: {submitted: 100}}\n  gone: {}\naccounts:"
    values = wanted(VALUES.replace("accounts:", limited, 1))
    await settle(admin, values)
    sacctmgr("add", "account", "guests", "description=by hand")
    sacctmgr("add", "user", "user1", "account=guests", "qos=gone", "defaultqos=gone")
    running.accounting.output("scontrol", "update", "partition=high", "qos=limited")
    for account, qos in (("chem", ""), ("guests", "gone")):
        opened = await user1.submit_job(job(account=account, qos=qos, partition="high", hold=True))
        await user1.cancel_job(opened.job_id)

    rest = {name: each for name, each in values.qos.items() if name != "gone"}
    await settle(admin, msgspec.structs.replace(values, qos=rest, users={}))
    await is_closed(running, user1, "chem", partition="high")
    await is_closed(running, user1, "guests", partition="high", qos="gone")
    running.accounting.output("scontrol", "update", "partition=high", "qos=")
    sacctmgr("delete", "account", "guests")
    await settle(admin, wanted())
