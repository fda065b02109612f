"""The Lease as a lock, against an apiserver over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from sunkpy.kube.client import Kube
from sunkpy.kube.lease import KubeLease
from sunkpy.runtime.election import Election, Identity, LeadershipLost, LockUnavailable
from tests.doubles.apiserver import Apiserver, Body, refusal
from tests.doubles.serving import answering
from tests.unit.runtime.replicas import Timer


class Cluster:
    """An apiserver that can hold back its answers to what it has carried out. `leader` is the lease."""

    def __init__(self) -> None:
        self.api = Apiserver()
        self.answers = asyncio.Event()
        self.answers.set()
        self.refuses = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.refuses:
            return refusal(500, "InternalError", "etcd is away")
        answer = await self.api.handle(request)
        await self.answers.wait()
        return answer

    @property
    def spec(self) -> Body:
        found = self.api.find("leases", "leader")
        assert found is not None
        spec: Body = found["spec"]
        return spec


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def lease(cluster: Cluster, tmp_path: Path) -> AsyncIterator[KubeLease]:
    async with answering(cluster.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        yield KubeLease(kube, namespace="slurm", name="leader")


async def test_a_lease_that_nobody_ever_held_is_none(lease: KubeLease) -> None:
    assert await lease.read() is None


async def test_what_was_written_is_read(cluster: Cluster, lease: KubeLease) -> None:
    assert await lease.write(holder="a/10.0.0.1", duration_s=12, previous=None)
    record = await lease.read()
    assert record is not None
    assert (record.holder, record.duration_s, record.transitions) == ("a/10.0.0.1", 12, 1)
    assert cluster.spec["acquireTime"] == cluster.spec["renewTime"]


async def test_a_renewal_keeps_who_and_since_when_and_changes_the_version(cluster: Cluster, lease: KubeLease) -> None:
    await lease.write(holder="a", duration_s=12, previous=None)
    first = await lease.read()
    assert await lease.write(holder="a", duration_s=12, previous=first)
    second = await lease.read()
    assert first is not None
    assert second is not None
    assert second.version != first.version
    assert (second.acquired, second.transitions) == (first.acquired, 1)
    assert cluster.spec["renewTime"] >= first.acquired


async def test_another_holder_counts_as_a_transition(lease: KubeLease) -> None:
    await lease.write(holder="a", duration_s=12, previous=None)
    assert await lease.write(holder="b", duration_s=12, previous=await lease.read())
    record = await lease.read()
    assert record is not None
    assert (record.holder, record.transitions) == ("b", 2)


async def test_a_lease_that_has_changed_is_not_taken(lease: KubeLease) -> None:
    await lease.write(holder="a", duration_s=12, previous=None)
    stale = await lease.read()
    await lease.write(holder="a", duration_s=12, previous=stale)
    assert not await lease.write(holder="b", duration_s=12, previous=stale)


async def test_of_two_who_find_no_lease_one_takes_it(lease: KubeLease) -> None:
    taken = [await lease.write(holder=name, duration_s=12, previous=None) for name in "ab"]
    assert taken == [True, False]


async def test_a_lease_that_was_deleted_is_not_renewed(cluster: Cluster, lease: KubeLease) -> None:
    await lease.write(holder="a", duration_s=12, previous=None)
    record = await lease.read()
    cluster.api.remove("leases", "slurm", "leader")
    assert not await lease.write(holder="a", duration_s=12, previous=record)


async def test_an_apiserver_in_trouble_tells_nothing_of_who_leads(cluster: Cluster, lease: KubeLease) -> None:
    cluster.refuses = True
    with pytest.raises(LockUnavailable, match="etcd is away"):
        await lease.read()
    with pytest.raises(LockUnavailable, match="etcd is away"):
        await lease.write(holder="a", duration_s=12, previous=None)


async def test_a_fraction_of_a_second_is_written_as_a_whole_one(cluster: Cluster, lease: KubeLease) -> None:
    await lease.write(holder="a", duration_s=0.4, previous=None)
    assert cluster.spec["leaseDurationSeconds"] == 1


async def test_a_leader_whose_calls_hang_has_stopped_before_the_next_one_leads(
    cluster: Cluster, lease: KubeLease
) -> None:
    bitten = asyncio.Event()
    watchdogs = {name: Timer(bitten.set) for name in "ab"}
    began, ended = ({name: asyncio.Event() for name in "ab"} for _ in range(2))

    async def work(name: str) -> None:
        began[name].set()
        try:
            await asyncio.Event().wait()
        finally:
            ended[name].set()

    def stand(name: str) -> asyncio.Task[None]:
        election = Election(lease, Identity(name=name), watchdog=watchdogs[name], duration_s=2)
        return asyncio.ensure_future(election.run(lambda: work(name)))

    async with asyncio.timeout(20):
        first = stand("a")
        await began["a"].wait()
        second = stand("b")
        cluster.answers.clear()
        with pytest.raises(LeadershipLost, match=r"not renewed for 1\.5 s"):
            await first
        watchdogs["a"].disarm()  # the process has ended
        assert ended["a"].is_set()
        assert not bitten.is_set()
        assert not began["b"].is_set()
        cluster.answers.set()
        await began["b"].wait()
        second.cancel()
        await asyncio.wait({second})
