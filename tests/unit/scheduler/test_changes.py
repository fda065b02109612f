"""Annotations that are changed while the job waits in the queue."""

import copy

import pytest

from sunkpy.scheduler.jobs import due as due_jobs
from tests.unit.scheduler.world import World, leading

PARTITION, QOS, LIMIT = "sunkpy.dev/partition", "sunkpy.dev/qos", "sunkpy.dev/time-limit"


@pytest.fixture
def world():
    world = World()
    world.add_node(1)
    return world


def annotate(world, **annotations):
    pod = copy.deepcopy(world.pod())
    pod["metadata"]["annotations"] = {
        f"sunkpy.dev/{name.replace('_', '-')}": text for name, text in annotations.items()
    }
    world.put("pods", pod)


async def test_the_job_is_changed_with_them(world, tmp_path):
    async with leading(world, tmp_path):
        world.add_pod(annotations={PARTITION: "low", QOS: "normal"})
        await world.until(lambda: world.submissions)
        annotate(world, partition="high", qos="normal", time_limit="2h", switches="1@60")
        await world.until(lambda: world.notes("JobChanged"))
        assert world.slurm.updates == [
            {
                "partition": "high",
                "time_limit": {"set": True, "infinite": False, "number": 120},
                "required_switches": {"set": True, "infinite": False, "number": 1},
                "wait_for_switch": 3600,
            }
        ]
        (job_id,) = world.jobs
        (note,) = world.notes("JobChanged")
        assert note == f"Slurm job {job_id}: partition high, switches 1 within 3600 s, time limit 120"
    assert len(world.submissions) == 1


async def test_nodes_that_an_admin_excludes_stay_excluded_when_others_must_be(world, tmp_path, monkeypatch):
    monkeypatch.setattr(due_jobs, "_FIRST_REASON_S", 0.0)
    monkeypatch.setattr(due_jobs, "_REASON_EACH_S", 0.01)
    for number in (2, 3):
        world.add_node(number)
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.jobs)
        (job_id,) = world.jobs

        async def is_read():
            read = world.slurm.asked.count(f"job {job_id}")
            await world.until(lambda: world.slurm.asked.count(f"job {job_id}") >= read + 2)

        await is_read()
        world.set_job(job_id, "PENDING", excluded_nodes="n2")
        await is_read()
        node = world.api.objects["nodes", "", "node-3"]
        world.put("nodes", node | {"spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]}})
        await world.until(lambda: "n3" in world.jobs[job_id]["excluded_nodes"])
        assert world.jobs[job_id]["excluded_nodes"] == "n2,n3"


async def test_nodes_outside_kubernetes_are_excluded_while_slurm_has_them(world, tmp_path):
    def excluded():
        return [job.get("excluded_nodes") or "" for job in world.jobs.values()]

    world.slurm.put("bare")
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: excluded() == ["bare"])
        world.slurm.put("bare-2")
        await world.until(lambda: excluded() == ["bare,bare-2"])
        world.slurm.forget("bare")
        world.slurm.forget("bare-2")
        await world.until(lambda: excluded() == [""])


async def test_what_slurm_refuses_is_told_once_and_the_job_waits_as_it_was(world, tmp_path):
    world.slurm.reject_update = 2066
    async with leading(world, tmp_path):
        world.add_pod(annotations={QOS: "normal"})
        await world.until(lambda: world.submissions)
        annotate(world, qos="gold")
        await world.until(lambda: world.notes("JobNotChanged"))
        (note,) = world.notes("JobNotChanged")
        assert "stays as it is: change qos of job" in note
        world.slurm.reject_update = None
        annotate(world, qos="silver")
        await world.until(lambda: world.slurm.updates)
        assert world.slurm.updates == [{"qos": "silver"}]
        assert world.cancelled == []


async def test_what_is_fixed_once_a_job_is_submitted_is_answered(world, tmp_path):
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        annotate(world, exclusive="true", wckey="w", gpu_type="h100", qos="gold")
        await world.until(lambda: world.notes("JobNotChanged") and world.notes("JobChanged"))
        assert world.notes("JobNotChanged") == [
            f"Slurm job {job_id} keeps the options with which it was submitted: "
            "exclusive: only an administrator of Slurm may change who shares the nodes of a job; "
            "wckey: only an administrator of Slurm may change that of a job; "
            "gpu-type: the GPUs of a job are part of its size. "
            "To change it, delete the pods: the next ones are submitted with the new value"
        ]
        assert world.notes("JobChanged") == [f"Slurm job {job_id}: qos gold"]
        annotate(world, qos="silver")
        await world.until(lambda: len(world.slurm.updates) == 2)
        assert world.slurm.updates == [{"qos": "gold"}, {"qos": "silver"}]
        assert (len(world.notes("JobNotChanged")), world.cancelled) == (1, [])


async def test_a_value_that_cannot_be_used_leaves_the_job_as_it_is(world, tmp_path):
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.submissions)
        annotate(world, time_limit="soon")
        await world.until(lambda: any("is not a time limit" in note for note in world.notes("FailedScheduling")))
        assert (world.slurm.updates, world.cancelled) == ([], [])


async def test_a_new_leader_finds_what_was_changed_while_nobody_led(world, tmp_path):
    pod = world.add_pod(annotations={PARTITION: "high"})
    world.add_job(pod, "PENDING", name="web", partition="low", qos="set-by-a-plugin", features="also")
    async with leading(world, tmp_path):
        await world.until(lambda: world.slurm.updates)
        assert world.slurm.updates == [{"partition": "high"}]
    assert world.submissions == []
