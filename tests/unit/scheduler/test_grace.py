"""Pods that would hold the epilog of their node for as long as whoever made them likes."""

import asyncio
from datetime import timedelta

import pytest

from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.scheduler.hooks import answers as hooks
from sunkpy.scheduler.settings import HooksSettings
from tests.doubles.apiserver import KUBELET
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, leading

A_DAY_S = 86400


@pytest.fixture
def world():
    world = World()
    world.add_node(1)
    return world


def grace_s(world):
    return world.pod()["metadata"].get("deletionGracePeriodSeconds")


async def test_an_evicted_pod_has_no_longer_than_its_epilog_waits(world, tmp_path):
    settings = HooksSettings(epilog_timeout_seconds=100)
    async with leading(world, tmp_path, hooks=settings) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call, terminationGracePeriodSeconds=A_DAY_S)
        await world.until(lambda: "the pod gets only 70 s" in "".join(world.notes("GraceTooLong")))
        world.set_job(job_id, "CANCELLED", nodes="n1")
        await world.until(lambda: world.deleted == ["web"])
        assert grace_s(world) == 70


async def test_pods_of_a_partition_have_the_time_that_its_values_give(world, tmp_path):
    settings = HooksSettings(longest_grace_seconds_in={"low": 40})
    async with (
        leading(world, tmp_path, hooks=settings, default_partition="low") as server,
        hook_client(server) as call,
    ):
        job_id = await bound_pod(world, call, terminationGracePeriodSeconds=A_DAY_S)
        world.set_job(job_id, "CANCELLED", nodes="n1")
        await world.until(lambda: world.deleted == ["web"])
        assert grace_s(world) == 40


async def test_a_pod_that_its_owner_told_to_go_in_a_day_goes_in_time_when_its_job_ends(world, tmp_path):
    settings = HooksSettings(longest_grace_seconds=60)
    async with leading(world, tmp_path, hooks=settings) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call, terminationGracePeriodSeconds=A_DAY_S)
        told = {"deletionTimestamp": "2026-11-21T00:00:00Z", "deletionGracePeriodSeconds": A_DAY_S}
        world.api.change("pods", "default", "web", {"metadata": told})
        world.set_job(job_id, "CANCELLED", nodes="n1")
        await world.until(lambda: grace_s(world) == 60)
        note = "its job has lost the node: its grace period is 60 s now, not 86400 s"
        await world.until(lambda: world.notes("GraceShortened") == [note])
        assert world.deleted == ["web"]


async def test_a_pod_that_would_have_ended_sooner_by_itself_gets_no_longer_when_its_job_ends(world, tmp_path):
    settings = HooksSettings(longest_grace_seconds=3000)
    async with leading(world, tmp_path, hooks=settings) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call, terminationGracePeriodSeconds=A_DAY_S)
        until = rfc3339(utc_now() + timedelta(seconds=1000))
        told = {"deletionTimestamp": until, "deletionGracePeriodSeconds": A_DAY_S}
        world.api.change("pods", "default", "web", {"metadata": told})
        world.set_job(job_id, "CANCELLED", nodes="n1")
        await world.until(lambda: grace_s(world) != A_DAY_S)
        assert 0 < grace_s(world) <= 1000


async def test_a_finalizer_alone_holds_no_epilog(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.api.change("pods", "default", "web", {"metadata": {"finalizers": [KUBELET, "example.com/never"]}})
        world.set_job(job_id, "CANCELLED", "COMPLETING", nodes="n1")
        epilog = asyncio.ensure_future(call("epilog", job_id))
        await world.until(lambda: world.deleted == ["web"])
        world.pod_ends("Failed")
        done, _ = await asyncio.wait({epilog}, timeout=0.2)
        assert not done, "sandbox and volumes are still there"
        let_go = {"deletionGracePeriodSeconds": 0, "finalizers": ["example.com/never"]}
        world.api.change("pods", "default", "web", {"metadata": let_go})
        assert await epilog == (200, {"done": True})


async def test_a_finalizer_under_a_pod_that_was_deleted_by_force_opens_no_epilog_before_its_sandbox_is_gone(
    world, tmp_path, monkeypatch
):
    """Its grace period is none from the beginning, and proves nothing of the kubelet."""
    world.hasten(teardown_s=3600.0)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        monkeypatch.setattr(hooks, "LONG_POLL_S", 0.05)
        by_force = {
            "deletionTimestamp": "2026-11-21T00:00:00Z", "deletionGracePeriodSeconds": 0, "finalizers": ["x.example/y"],
        }  # fmt: skip
        world.api.change("pods", "default", "web", {"metadata": by_force})
        world.set_job(job_id, "CANCELLED", "COMPLETING", nodes="n1")
        world.pod_ends("Failed")
        for _ in range(3):
            status, answer = await call("epilog", job_id)
            assert (status, answer["done"]) == (202, False)
        assert "was deleted by force" in answer["why"]


async def test_a_pod_that_was_told_to_go_and_then_deleted_by_force_is_waited_for_as_long_as_it_was_given(
    world, tmp_path
):
    world.hasten(teardown_s=0.0)
    settings = HooksSettings(longest_grace_seconds=1)
    async with leading(world, tmp_path, hooks=settings) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call, terminationGracePeriodSeconds=A_DAY_S)
        world.set_job(job_id, "CANCELLED", "COMPLETING", nodes="n1")
        await world.until(lambda: grace_s(world) == 1)
        world.pod_vanishes()
        assert await call("epilog", job_id) == (200, {"done": True})
