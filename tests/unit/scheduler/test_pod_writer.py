"""What the apiserver says of a pod when it is asked for it alone."""

import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.kube import errors
from sunkpy.scheduler.pods.writer import PodWriter
from sunkpy.scheduler.record import GangRecord, MemberRecord
from tests.unit.scheduler.world import World, connections


async def test_a_pod_is_not_gone_because_an_apiserver_that_has_just_started_serves_none(tmp_path):
    world = World()
    uid = world.add_pod()["metadata"]["uid"]
    record = GangRecord(id=GangId(namespace="default", name="web", uid=uid), seen_at=0.0)
    record.members[uid] = member = MemberRecord(key=("default", "web"))
    async with connections(world, tmp_path) as (kube, _, _):
        pods = PodWriter(kube)
        world.api.unserved.add("pods")
        with pytest.raises(errors.NotServed):
            await pods.left_of(record)
        assert not member.is_gone
        world.api.unserved.clear()
        assert [pod.name for pod in await pods.left_of(record)] == ["web"]
        world.pod_vanishes()
        assert (await pods.left_of(record), member.is_gone) == ([], True)
