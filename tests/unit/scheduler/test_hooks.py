"""Hooks that lie, come late or ask at the gate."""

import asyncio

import pytest

from sunkpy.core import names
from sunkpy.scheduler.hooks import gate
from sunkpy.scheduler.loop import GangLoop
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, leading


@pytest.fixture
def world():
    world = World()
    world.add_node(1)
    world.add_node(2)
    return world


@pytest.fixture
def impatient(world, monkeypatch):
    """The gate waits for nothing: what it does after its patience is seen at once."""
    monkeypatch.setattr(gate, "LONG_POLL_S", 0.3)
    world.hasten(displace_after_s=0.0, gate_again_s=0.02)


async def test_a_node_cannot_get_a_pod_by_a_prolog_for_a_job_that_slurm_gave_to_nobody(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        status, answer = await call("prolog", job_id, node=2)
        assert status == 403
        assert answer["why"] == f"Slurm has not given job {job_id} to n2: the job is on no node"
        assert world.bindings == []


async def test_a_node_cannot_take_a_pod_away_from_another_node(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        status, answer = await call("epilog", job_id, node=2)
        assert (status, answer["kept"]) == (200, True)
        assert (await call("prolog", job_id, node=2))[1]["why"].endswith(f"{job_id} to n2: the job is RUNNING on n1")
        assert world.deleted == []


@pytest.mark.parametrize("again", [(), ("RUNNING",)])
async def test_an_epilog_of_a_job_whose_start_slurm_has_forgotten_does_not_fail_and_the_gate_waits(
    world, tmp_path, impatient, again
):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "PENDING", nodes="")
        await world.until(lambda: world.deleted == ["web"] and world.cancelled == [job_id])
        if again:
            world.set_job(job_id, *again, nodes="n2")
        status, answer = await call("epilog", job_id)
        assert (status, answer["kept"]) == (200, True)
        assert (await call("gate", 4711, marked=[job_id]))[0] == 202
        world.pod_is_gone()
        assert (await call("gate", 4711, marked=[job_id]))[0] == 200


async def test_an_epilog_of_a_job_that_runs_is_not_believed(world, tmp_path, monkeypatch):
    monkeypatch.setattr("sunkpy.scheduler.hooks.answers._LATE_STATE_S", 0.01)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        status, answer = await call("epilog", job_id)
        assert (status, answer["why"]) == (202, f"Slurm says that job {job_id} runs: it has lost no node")
        assert world.deleted == []


async def test_an_epilog_of_a_job_that_slurm_has_forgotten_costs_no_pod_its_life_and_the_mark_stays(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.jobs.clear()
        status, answer = await call("epilog", job_id)
        assert (status, answer["kept"]) == (200, True)
        await world.until(lambda: len(world.submissions) == 2)
        assert world.deleted == []


async def test_a_new_leader_lets_no_epilog_take_the_mark_of_a_job_that_nobody_knows(world, tmp_path):
    world.add_pod(node="node-1", running=True)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        status, answer = await call("epilog", 4711)
        assert (status, answer["kept"]) == (200, True)


async def test_a_job_id_that_a_pod_claims_for_itself_is_not_adopted(world, tmp_path):
    alices = world.add_job({"metadata": {"namespace": "x", "name": "y", "uid": "z"}}, "RUNNING", user="alice")
    world.add_pod(node="node-1", running=True, annotations={names.ANNOTATION_JOB_ID: str(alices)})
    async with leading(world, tmp_path):
        # The pod holds its node, so a job of its own is made to say so.
        await world.until(lambda: world.submissions)
        assert world.submissions[0]["required_nodes"] == ["n1"]
        world.pod_ends("Succeeded")
        await world.until(lambda: len(world.cancelled) == 1)
        assert alices not in world.cancelled
        assert world.signals == []


async def test_the_job_of_a_pod_that_finished_while_nobody_led_ends_with_its_exit_code(world, tmp_path):
    pod = world.add_pod(node="node-1")
    job_id = world.add_job(pod, "RUNNING", nodes="n1")
    world.pod_ends("Succeeded")
    async with leading(world, tmp_path):
        await world.until(lambda: world.signals == [(job_id, "USR1")])
        assert world.cancelled == []


async def test_a_job_that_ended_and_that_a_killed_slurmctld_takes_for_running_again_is_cancelled(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "PREEMPTED", "COMPLETING", nodes="n1")
        epilog = asyncio.ensure_future(call("epilog", job_id))
        await world.until(lambda: world.deleted == ["web"])
        world.set_job(job_id, "RUNNING", nodes="n1")
        await world.until(lambda: world.cancelled == [job_id])
        world.pod_is_gone()
        assert await epilog == (200, {"done": True})


async def test_the_gate_is_open_where_pods_hold_their_node(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        stale = world.add_job({"metadata": {"namespace": "x", "name": "y", "uid": "z"}}, "COMPLETED")
        answer = await call("gate", 4711, marked=[job_id, stale, 9999])
        assert answer == (200, {"done": True, "over": [stale, 9999]})


async def test_the_gate_stays_shut_until_the_pod_of_an_ended_job_is_gone(world, tmp_path, impatient):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "CANCELLED")
        await world.until(lambda: world.deleted == ["web"])
        assert await call("gate", 4711) == (
            202, {"done": False, "why": "pod default/web of an earlier job is not gone yet"},
        )  # fmt: skip
        world.pod_is_gone()
        assert await call("gate", 4711, marked=[job_id]) == (200, {"done": True, "over": [job_id]})


async def test_a_healthy_pod_outlives_node_fail_until_its_node_is_somebody_elses(world, tmp_path, impatient):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "NODE_FAIL", "COMPLETING", nodes="n1")
        await world.until(lambda: len(world.submissions) == 2)
        status, answer = await call("epilog", job_id)
        assert (status, answer["done"], answer["kept"]) == (200, True, True)
        assert world.deleted == []
        successor = world.slurm.add_job("RUNNING", "CONFIGURING", comment="", user="alice", nodes="n1")
        asking = asyncio.ensure_future(call("gate", successor))
        await world.until(lambda: world.deleted == ["web"])
        assert (await asking)[0] == 202
        (condition,) = [c for c in world.pod()["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert condition["message"] == f"Slurm lost job {job_id} and gave n1 to Slurm job {successor}"
        world.pod_is_gone()
        assert (await call("gate", successor))[0] == 200


async def test_a_placeholder_job_that_nobody_knows_is_found_and_cancelled(world, tmp_path):
    async with leading(world, tmp_path, sweep_seconds=0.05):
        await asyncio.sleep(0)
        leaked = world.add_job({"metadata": {"namespace": "default", "name": "gone", "uid": "uid-gone"}}, "PENDING")
        await world.until(lambda: world.cancelled == [leaked])


async def test_a_binding_that_the_apiserver_forbids_gives_the_node_back(world, tmp_path):
    world.api.refuse_bindings = True
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.set_job(job_id, "RUNNING", nodes="n1")
        await world.until(lambda: world.cancelled == [job_id])
        await world.until(lambda: world.notes("FailedScheduling"))
        assert "the apiserver refuses the binding to node node-1" in world.notes("FailedScheduling")[-1]


async def test_a_job_that_waits_may_go_to_the_node_that_refused_its_pod_again_after_a_while(world, tmp_path):
    """Though nothing else changes meanwhile: the job may wait for other nodes for days."""
    world.hasten(node_refused_s=4.0)
    world.api.refuse_bindings = True
    async with leading(world, tmp_path, poll_seconds=0.2) as server, hook_client(server) as call:
        world.add_pod()
        await world.until(lambda: world.submissions)
        (first,) = world.jobs
        world.set_job(first, "RUNNING", "CONFIGURING", nodes="n1")
        await call("prolog", first)
        await world.until(lambda: len(world.submissions) == 2)
        second = max(world.jobs)
        assert world.jobs[second]["excluded_nodes"] == "n1"
        await world.until(lambda: not world.jobs[second]["excluded_nodes"], within_s=6.0)


async def test_a_pod_with_the_labels_of_a_slurmd_pod_speaks_for_no_node(world, tmp_path):
    pod = world.api.find("pods", "slurmd-2")
    pod["metadata"]["ownerReferences"] = []
    world.put("pods", pod)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        status, answer = await call("epilog", 1, node=2)
        assert status == 403
        assert "no slurmd pod" in answer["why"]


async def test_an_epilog_of_a_job_whose_number_slurm_gave_away_costs_no_pod_its_node(world, tmp_path):
    """slurmctld lost its state and counts from the beginning: job 100 was the job of another pod, on another node."""
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        status, answer = await call("epilog", job_id, node=2, gang="k8s:default/earlier:uid-earlier")
        assert (status, answer["done"], answer["kept"]) == (200, True, True)
        status, answer = await call("epilog", job_id, node=1, gang="k8s:default/earlier:uid-earlier")
        assert (status, answer["kept"]) == (200, True)
        assert world.deleted == []


async def test_the_mark_of_a_job_that_slurm_does_not_know_stays_for_the_gate(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        assert (await call("epilog", 4711))[1]["kept"]
        assert await call("gate", 5000, marked=[4711]) == (200, {"done": True, "over": [4711]})


async def test_an_epilog_that_calls_when_its_gang_is_over_and_its_pod_is_listed_still_hears_when_it_is_gone(
    world, tmp_path, monkeypatch
):
    forget, forgotten = GangLoop._forget, []

    def noted(loop, record):
        forget(loop, record)
        forgotten.append(record.id)
        world.note_change()

    monkeypatch.setattr(GangLoop, "_forget", noted)
    world.hasten(gate_again_s=0.05)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job = await bound_pod(world, call)
        world.set_job(job, "PREEMPTED")
        await world.until(lambda: world.deleted)
        world.pod_ends("Failed")
        await world.until(lambda: len(forgotten) == 1)
        epilog = asyncio.ensure_future(call("epilog", job))
        await world.until(lambda: len(forgotten) == 2)
        assert not epilog.done()
        world.pod_vanishes()
        async with asyncio.timeout(10):
            assert await epilog == (200, {"done": True})
