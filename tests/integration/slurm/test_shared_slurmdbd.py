"""Two Slurm clusters on one slurmdbd, the one with which it came and a guest: neither changes anything of the other."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from sunkpy.accounts.collect import plan_now
from sunkpy.accounts.loop import AccountsLoop
from sunkpy.accounts.metrics import AccountsMetrics
from sunkpy.accounts.settings import AccountsSettings
from sunkpy.core.accounts import WantedAccounts, describe_plan
from sunkpy.core.accounts.records import CLOSED
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import Slurm, errors
from tests.integration.slurm.asking import administrator, connect, happens
from tests.integration.slurm.daemons import RealAccounting, RealSlurm

pytestmark = [pytest.mark.integration, pytest.mark.long]

HOST, GUEST = "it", "guest"
HOSTS = """
qos: {fast: {priority: 100}, slow: {limits: {submitted: 50}}}
accounts: {chem: {description: Chemistry, shares: 10, qos: [normal, fast]}, cells: {}}
users: {user1: {accounts: {chem: {}, cells: {}}, defaultAccount: chem}, zoe: {accounts: {cells: {}}}}
pods: {account: cells}
"""
GUESTS = """
accounts: {chem: {description: Ours, shares: 7, qos: [fast], defaultQos: fast}, bio: {}}
users: {user1: {accounts: {chem: {}, bio: {}}, defaultAccount: bio}, eve: {accounts: {bio: {}}}}
pods: {account: bio}
"""


class Two:
    """All daemons. The guest is of the older Slurm that the images have."""

    def __init__(self, folder, suite: str) -> None:
        self.accounting = RealAccounting(folder, suite)
        self.host = RealSlurm(folder, suite, self.accounting, cluster=HOST)
        (folder / GUEST).mkdir()
        self.guest = RealSlurm(folder / GUEST, "trixie", self.accounting, cluster=GUEST)

    def stop(self) -> None:
        self.guest.stop()
        self.accounting.stop()
        self.host.stop()

    def of(self, cluster: str) -> str:
        """All that slurmdbd keeps of one cluster."""
        fields = "format=account,user,parentname,share,qos,defaultqos,grpsubmit,comment"
        told = self.accounting.sacctmgr("show", "assoc", f"cluster={cluster}", fields)
        defaults = self.accounting.sacctmgr(
            "show", "assoc", f"cluster={cluster}", "onlydefaults", "format=account,user"
        )
        return f"{told}\n{defaults}"

    def of_all(self) -> str:
        """What slurmdbd keeps once for all clusters."""
        show = self.accounting.sacctmgr
        return show("show", "account", "format=account,descr,org") + show("show", "qos", "format=name,descr,grpsubmit")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    two = Two(tmp_path_factory.mktemp("shared"), os.environ.get("SLURM_SUITE", "trixie"))
    yield two
    two.stop()


@pytest.fixture
async def host(two: Two) -> AsyncIterator[Slurm]:
    async with administrator(two.host) as slurm:
        yield slurm


@pytest.fixture
async def guest(two: Two) -> AsyncIterator[Slurm]:
    async with administrator(two.guest) as slurm:
        yield slurm


async def settle(slurm: Slurm, cluster: str, text: str) -> str:
    """Make slurmdbd say what the values say; what is left of the plan then."""
    values = msgspec.yaml.decode(text, type=WantedAccounts)
    unused = SlurmSettings(url="http://nowhere", jwt_key_file="/nowhere")
    settings = AccountsSettings(cluster=cluster, slurm=unused, wanted=values, is_guest=cluster == GUEST)
    loop = AccountsLoop(slurm=slurm, settings=settings, metrics=AccountsMetrics(CollectorRegistry()))
    await loop.settle()
    return describe_plan(await plan_now(slurm, values, cluster=cluster, is_guest=cluster == GUEST))


async def record(two: Two, real: RealSlurm, cluster: str) -> str:
    """What sacct of the host says of a job of user1 that names no account."""
    slurm = connect(real, "user1")
    job = JobSpec(name="j", script="#!/bin/sh\ntrue\n", comment="k8s:a/b:uid", memory_mib_per_node=10)
    try:
        job_id = (await slurm.submit_job(job)).job_id
    finally:
        await slurm.close()
    listed = ("sacct", "-anXP", "-M", cluster, "-j", str(job_id), "-o", "cluster,account,state")

    async def is_recorded() -> bool:
        return "COMPLETED" in await asyncio.to_thread(two.host.as_user, 401, *listed)

    await happens(real, is_recorded)
    return await asyncio.to_thread(two.host.as_user, 401, *listed)


async def test_each_has_its_accounts_and_defaults_and_none_changes_the_other(
    two: Two, host: Slurm, guest: Slurm
) -> None:
    assert await settle(host, HOST, HOSTS) == "Nothing to change."
    before, shared = two.of(HOST), two.of_all()
    assert await settle(guest, GUEST, GUESTS) == "Nothing to change."
    assert two.of(HOST) == before
    assert set(shared.splitlines()) <= set(two.of_all().splitlines()), "bio is new, chem as the host describes it"
    assert await settle(host, HOST, HOSTS) == "Nothing to change."
    assert "chem|user1" in two.of(HOST).splitlines()
    assert "bio|user1" in two.of(GUEST).splitlines()


async def test_a_default_account_is_changed_in_one_cluster_alone(two: Two, host: Slurm, guest: Slurm) -> None:
    await settle(host, HOST, HOSTS)
    await settle(guest, GUEST, GUESTS)
    hosts, guests = two.of(HOST), two.of(GUEST)
    assert (
        await settle(guest, GUEST, GUESTS.replace("defaultAccount: bio", "defaultAccount: chem"))
        == "Nothing to change."
    )
    assert two.of(HOST) == hosts
    assert two.of(GUEST) != guests
    assert await record(two, two.guest, GUEST) == f"{GUEST}|chem|COMPLETED"
    await settle(guest, GUEST, GUESTS)
    assert two.of(GUEST) == guests
    assert (
        await settle(host, HOST, HOSTS.replace("defaultAccount: chem", "defaultAccount: cells")) == "Nothing to change."
    )
    assert two.of(GUEST) == guests
    await settle(host, HOST, HOSTS)


async def test_what_one_closes_is_open_in_the_other(two: Two, host: Slurm, guest: Slurm) -> None:
    await settle(host, HOST, HOSTS)
    await settle(guest, GUEST, GUESTS)
    hosts, guests = two.of(HOST), two.of(GUEST)
    assert await settle(guest, GUEST, "accounts: {bio: {}}\npods: {account: bio}") == "Nothing to change."
    assert two.of(HOST) == hosts
    assert CLOSED in two.of(GUEST)
    await settle(guest, GUEST, GUESTS)
    assert (
        await settle(host, HOST, "qos: {fast: {}}\naccounts: {cells: {}}\npods: {account: cells}")
        == "Nothing to change."
    )
    assert two.of(GUEST) == guests
    await settle(host, HOST, HOSTS)


async def test_a_guest_makes_no_qos(two: Two, guest: Slurm) -> None:
    before = two.of_all()
    left = await settle(guest, GUEST, f"qos: {{fast: {{priority: 7}}}}\n{GUESTS.strip()}")
    assert left.startswith("! QoS fast: ")
    assert two.of_all() == before


async def test_what_a_person_puts_into_the_cluster_of_a_guest_is_theirs(two: Two, guest: Slurm) -> None:
    sacctmgr = two.accounting.sacctmgr
    await settle(guest, GUEST, GUESTS)
    sacctmgr("add", "account", "cells", f"cluster={GUEST}", "fairshare=77")
    assert await settle(guest, GUEST, GUESTS) == "Nothing to change."
    wants = GUESTS.replace("bio: {}}\nusers", "bio: {}, cells: {}}\nusers")
    told = await settle(guest, GUEST, wants)
    (line,) = [line for line in told.splitlines() if line.startswith("! account cells ")]
    assert line.endswith(f"sacctmgr modify account cells where cluster={GUEST} set comment='k8s: values'")
    sacctmgr("modify", "account", "cells", "where", f"cluster={GUEST}", "set", "comment=k8s: values")
    assert await settle(guest, GUEST, wants) == "Nothing to change."
    await settle(guest, GUEST, GUESTS)


async def test_jobs_of_both_are_on_record_each_in_its_cluster(two: Two, host: Slurm, guest: Slurm) -> None:
    await settle(host, HOST, HOSTS)
    await settle(guest, GUEST, GUESTS)
    assert await record(two, two.host, HOST) == f"{HOST}|chem|COMPLETED"
    assert await record(two, two.guest, GUEST) == f"{GUEST}|bio|COMPLETED"


async def test_a_new_slurmctld_under_the_name_of_one_that_lives_is_refused(two: Two, guest: Slurm) -> None:
    assert (await guest.accounting(GUEST)).associations, "it lives"
    conf = (two.host.root / "etc/slurm/slurm.conf").read_text()

    def check(name: str) -> str:
        (two.host.root / "tmp/other.conf").write_text(conf.replace(f"ClusterName={HOST}\n", f"ClusterName={name}\n"))
        return two.host.as_user(401, "bash", "-c", "check-cluster-name /tmp/other.conf 2>&1 || echo ends with $?")

    os.chown(two.host.root / "run", 401, 401)
    assert check("third") == ""
    for taken in (HOST, GUEST):
        told = check(taken)
        assert told.startswith(f"check-cluster-name: slurmdbd hears a slurmctld of cluster {taken} at 127.0.0.1, and")
        assert told.endswith("ends with 1")
    assert await record(two, two.host, HOST) == f"{HOST}|chem|COMPLETED", "its commands find slurmctld's socket again"


async def test_slurmdbd_reads_the_token_of_who_asks_slurmrestd(two: Two, guest: Slurm, tmp_path: Path) -> None:
    """So all clusters have one jwt.key."""
    assert (await guest.accounting(GUEST)).associations
    (tmp_path / "jwt.key").write_bytes(secrets.token_bytes(64))
    other = Slurm.connect(SlurmSettings(url=two.guest.url, user="slurm", jwt_key_file=str(tmp_path / "jwt.key")))
    try:
        with pytest.raises(errors.SlurmError):
            await other.accounting(GUEST)
    finally:
        await other.close()
