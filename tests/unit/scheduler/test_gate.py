"""The gate while the scheduler knows less than Slurm and the apiserver do."""

import asyncio

import pytest

from sunkpy.core import names
from sunkpy.scheduler.hooks import answers as hooks
from sunkpy.scheduler.hooks import gate
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, leading

NEVER_S = 3600.0
SHUT = (202, {"done": False, "why": "pod default/web of an earlier job is not gone yet"})


@pytest.fixture
def world():
    world = World()
    world.add_node(1)
    world.add_node(2)
    return world


@pytest.fixture(autouse=True)
def impatient(world, monkeypatch):
    """The gate waits for nothing: what it does after its patience is seen at once."""
    monkeypatch.setattr(gate, "LONG_POLL_S", 0.3)
    world.hasten(displace_after_s=0.0, gate_again_s=0.02)


async def test_the_gate_believes_slurm_and_not_the_last_poll(world, tmp_path):
    async with leading(world, tmp_path, poll_seconds=NEVER_S) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "CANCELLED", nodes="n1")
        assert await call("gate", 4711, marked=[job_id]) == SHUT
        await world.until(lambda: world.deleted == ["web"])
        world.pod_is_gone()
        assert (await call("gate", 4711, marked=[job_id]))[0] == 200


async def test_the_gate_asks_slurm_about_the_job_of_a_pod_that_has_no_mark(world, tmp_path):
    async with leading(world, tmp_path, poll_seconds=NEVER_S) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "CANCELLED", nodes="n1")
        assert await call("gate", 4711) == SHUT


async def test_the_gate_is_shut_while_slurm_cannot_be_asked_whether_the_job_of_a_pod_runs(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.slurm_is_up = False
        assert (await call("gate", 4711, marked=[job_id]))[0] == 503


async def test_the_gate_is_shut_for_a_job_that_slurm_has_just_forgotten(world, tmp_path):
    async with leading(world, tmp_path, poll_seconds=NEVER_S) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.jobs.clear()
        assert await call("gate", 4711, marked=[job_id]) == SHUT
        assert world.deleted == []


async def test_the_gate_is_shut_for_another_job_under_the_number_of_the_pods_own(world, tmp_path):
    """A slurmctld that was killed forgets its last jobs, and gives their numbers again."""
    async with leading(world, tmp_path, poll_seconds=NEVER_S) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        own = world.jobs[job_id]["comment"]
        assert (await call("gate", job_id, marked=[job_id], gang=own))[0] == 200
        world.set_job(job_id, "RUNNING", nodes="n1", comment="", user_name="alice")
        assert await call("gate", job_id, marked=[job_id]) == SHUT


async def test_the_gate_counts_a_binding_that_the_watch_does_not_show(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.set_job(job_id, "RUNNING", "CONFIGURING", nodes="n1")
        world.api.watches_lag = True
        assert await call("prolog", job_id) == (200, {"done": True})
        world.set_job(job_id, "CANCELLED", nodes="n1")
        assert await call("gate", 4711, marked=[job_id]) == SHUT


async def test_a_job_that_has_not_got_the_node_displaces_nobody(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "NODE_FAIL", nodes="n1")
        await world.until(lambda: len(world.submissions) == 2)
        cancelled = world.slurm.add_job("CANCELLED", comment="", user="alice", nodes="n1")
        elsewhere = world.slurm.add_job("RUNNING", comment="", user="alice", nodes="n2")
        for other in (4711, cancelled, elsewhere):
            assert await call("gate", other, marked=[job_id]) == SHUT
        assert world.deleted == []


async def test_a_pod_of_a_gang_that_nobody_remembers_is_waited_for_without_haste(world, tmp_path):
    world.add_pod(node="node-1", annotations={names.ANNOTATION_JOB_ID: "7"})
    world.pod_ends("Succeeded")
    being_torn_down = {"deletionTimestamp": "2026-11-21T00:00:00Z", "deletionGracePeriodSeconds": 30}
    world.api.change("pods", "default", "web", {"metadata": being_torn_down})
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        began = asyncio.get_running_loop().time()
        assert (await call("gate", 4711, marked=[7]))[0] == 202
        assert asyncio.get_running_loop().time() - began >= 0.3


UNREADABLE = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "none", "uid": "none"}}


@pytest.mark.parametrize(("owner", "note"), [(None, {}), (UNREADABLE, {}), (None, {names.ANNOTATION_JOB_ID: "100"})])
async def test_a_pod_that_was_put_on_the_node_by_hand_keeps_nobody_from_it(world, tmp_path, owner, note):
    """Anybody who may make pods can, under every node, with a grace period of a day."""
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        assert job_id == 100
        world.add_pod("squatter", node="node-1", running=True, owner=owner, annotations=note)
        await world.until(lambda: owner is not None or len(world.submissions) == 2)
        assert await call("gate", 4711, marked=[job_id]) == (200, {"done": True})
        assert world.deleted == []


async def test_a_gang_of_this_name_in_another_namespace_keeps_nobody_from_a_node_and_leaves_no_mark(world, tmp_path):
    gang = {names.ANNOTATION_GANG: "train", names.ANNOTATION_GANG_SIZE: "1"}
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call, annotations=gang)
        note = gang | {names.ANNOTATION_JOB_ID: str(job_id)}
        world.add_pod("squatter", namespace="evil", node="node-1", running=True, annotations=note)
        await world.until(lambda: len(world.submissions) == 2)
        assert await call("gate", 4711, marked=[job_id]) == (200, {"done": True})
        world.pod_is_gone()
        world.set_job(job_id, "CANCELLED")
        assert await call("epilog", job_id) == (200, {"done": True})


@pytest.mark.parametrize(("noted", "expected"), [(100, 202), (99, 200)])
async def test_an_epilog_waits_for_a_pod_of_its_job_whose_gang_is_not_known_yet(
    world, tmp_path, monkeypatch, noted, expected
):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        monkeypatch.setattr(hooks, "LONG_POLL_S", 0.3)
        assert job_id == 100
        note = {names.ANNOTATION_JOB_ID: str(noted)}
        world.add_pod("late", node="node-1", running=True, owner=UNREADABLE, annotations=note)
        world.pod_is_gone()
        world.set_job(job_id, "CANCELLED")
        status, answer = await call("epilog", job_id)
        assert status == expected
        assert answer.get("why", "") == (
            "pod default/late is on the node and its gang is not known yet" if noted == 100 else ""
        )


@pytest.mark.parametrize(("hook", "grace_s"), [("epilog", 300), ("gate", 300), ("epilog", 0)])
async def test_a_pod_that_was_deleted_by_force_is_waited_for_as_long_as_its_containers_may_take(
    world, tmp_path, monkeypatch, hook, grace_s
):
    """Without a grace period each deletion is by force."""
    world.hasten(teardown_s=600.0)
    async with leading(world, tmp_path, poll_seconds=NEVER_S) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call, terminationGracePeriodSeconds=grace_s)
        monkeypatch.setattr(hooks, "LONG_POLL_S", 0.05)
        world.set_job(job_id, "CANCELLED", "COMPLETING", nodes="n1")
        world.pod_vanishes()
        asks = (hook, job_id) if hook == "epilog" else (hook, 4711)
        for later_s in (0.0, 500.0 + grace_s):
            world.later_s = later_s
            _, answer = await call(*asks, marked=[job_id])
            assert "was deleted by force: its containers have" in answer["why"]
        world.later_s = 601.0 + grace_s
        while not answer["done"]:
            _, answer = await call(*asks, marked=[job_id])


async def test_a_pod_that_was_deleted_by_force_is_waited_for_until_its_kubelet_was_heard_of(
    world, tmp_path, monkeypatch
):
    """A kubelet that is away ends no containers."""
    world.hasten(teardown_s=600.0)
    lease = {"metadata": {"namespace": "kube-node-lease", "name": "node-1"}}
    world.put("leases", lease | {"spec": {"renewTime": "2026-11-26T04:00:00.000000Z"}})
    async with leading(world, tmp_path, poll_seconds=NEVER_S) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call, terminationGracePeriodSeconds=1)
        monkeypatch.setattr(hooks, "LONG_POLL_S", 0.05)
        world.set_job(job_id, "CANCELLED", "COMPLETING", nodes="n1")
        world.pod_vanishes()

        async def why():
            _, answer = await call("epilog", job_id)
            return answer.get("why", "")

        silent = "pod default/web was deleted by force, and its kubelet has not reported since"
        while await why() != silent:
            pass  # its Lease is read
        world.later_s = 3600.0
        assert await why() == silent
        world.put("leases", lease | {"spec": {"renewTime": "2026-11-26T04:00:10.000000Z"}})
        while (said := await why()) == silent:
            pass
        assert said.startswith("pod default/web was deleted by force: its containers have ")
        world.later_s += 500.0
        assert "its containers have" in await why()
        world.later_s += 102.0
        assert await why() == ""


async def test_a_pod_deleted_by_force_is_waited_for_though_its_owner_took_the_note_of_its_job_off(
    world, tmp_path, monkeypatch
):
    async with leading(world, tmp_path, poll_seconds=NEVER_S) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        monkeypatch.setattr(hooks, "LONG_POLL_S", 0.05)
        world.api.change("pods", "default", "web", {"metadata": {"annotations": {names.ANNOTATION_JOB_ID: None}}})
        world.set_job(job_id, "CANCELLED", "COMPLETING", nodes="n1")
        world.pod_vanishes()
        status, answer = await call("epilog", job_id)
        assert (status, "was deleted by force" in answer["why"]) == (202, True)


async def test_a_pod_without_any_grace_period_is_told_to_go_in_a_second(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call, terminationGracePeriodSeconds=0)
        world.set_job(job_id, "CANCELLED", nodes="n1")
        await world.until(lambda: world.deleted == ["web"])
        assert "deletionTimestamp" in world.pod()["metadata"]
