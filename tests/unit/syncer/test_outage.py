"""An outage of Slurm is said by Events on the NodeSets, few of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.kube.trim import trim_slurmd
from sunkpy.syncer.metrics import SyncerMetrics
from sunkpy.syncer.outage import Outage
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import Changes, answering

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
POOLS = {"gpu": 3, "cpu": 2}


class Rig:
    """An outage that is looked at by a clock of its own."""

    def __init__(self, api: Apiserver, kube: Kube) -> None:
        self.api = api
        self.now = NOON
        self.registry = CollectorRegistry()
        self.pods = Informer(kube, paths.pods("slurm"), Pod, keep=trim_slurmd)
        events = EventRecorder(kube, component="syncer", instance="a")
        metrics = SyncerMetrics(self.registry)
        self.outage = Outage(pods=self.pods, events=events, metrics=metrics, now=lambda: self.now)

    async def look(self, *, is_read: bool = True, is_trusted: bool = True) -> None:
        self.now += timedelta(seconds=1)
        await self.outage.look(is_read=is_read, is_trusted=is_trusted)

    def told(self) -> list[tuple[str, str]]:
        return [(event["regarding"]["name"], event["reason"]) for event in self.api.events()]


@pytest.fixture
async def rig(tmp_path) -> AsyncIterator[Rig]:
    api = Apiserver(Changes())
    for pool, size in POOLS.items():
        owner = {"apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "name": pool, "uid": pool, "controller": True}
        for number in range(size):
            name = f"{pool}-{number}"
            labels = {names.LABEL_NODESET: pool, names.LABEL_SLURM_NODE: name}
            meta = {"name": name, "namespace": "slurm", "labels": labels}
            api.put("pods", {"metadata": meta | {"ownerReferences": [owner]}, "spec": {}, "status": {}})
    async with answering(api.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        rig = Rig(api, kube)
        following = asyncio.ensure_future(rig.pods.run())
        await rig.pods.synced.wait()
        yield rig
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_it_is_said_once_for_each_nodeset_with_the_age_of_what_pods_say(rig: Rig) -> None:
    await rig.look()
    for _ in range(30):
        await rig.look(is_read=False)
    assert sorted(rig.told()) == [("cpu", "SlurmUnreadable"), ("gpu", "SlurmUnreadable")]
    assert "as of 2026-11-21T12:00:01Z" in rig.api.events()[0]["note"]
    assert rig.registry.get_sample_value("sunkpy_syncer_slurm_readable") == 0
    await rig.look()
    assert sorted(reason for _, reason in rig.told()) == ["SlurmReadable"] * 2 + ["SlurmUnreadable"] * 2
    assert rig.registry.get_sample_value("sunkpy_syncer_slurm_readable") == 1


async def test_what_lasts_is_said_again_after_a_while(rig: Rig) -> None:
    await rig.look()
    await rig.look(is_trusted=False)
    rig.now += timedelta(minutes=31)
    await rig.look(is_read=False)
    assert [reason for _, reason in rig.told()] == ["SlurmNotBelieved"] * 2 + ["SlurmUnreadable"] * 2


async def test_a_new_leader_does_not_know_how_old_the_words_are(rig: Rig) -> None:
    await rig.look(is_read=False)
    assert "from before 2026-11-21T12:00:00Z" in rig.api.events()[0]["note"]


async def test_while_all_is_well_nothing_is_said(rig: Rig) -> None:
    for _ in range(3):
        await rig.look()
    assert rig.told() == []
