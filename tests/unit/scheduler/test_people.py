"""Pods that belong to people: whose job it is, what is refused, and jobs that their owners make look like others."""

import asyncio

import pytest

from sunkpy.core import names
from sunkpy.core.gang.access import AccessRule
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, leading

ANNS = (AccessRule(namespaces=("default",), users=("ann", "bob"), accounts=("chem",)),)
GANG = "k8s:default/web:{uid}"


@pytest.fixture
def world():
    world = World()
    world.add_node(1)
    world.add_node(2)
    return world


def comment_of(pod):
    return GANG.format(uid=pod["metadata"]["uid"])


async def test_the_job_of_a_pod_is_its_users_from_the_submit_to_the_end(world, tmp_path):
    async with leading(world, tmp_path, access=ANNS) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        assert world.jobs[job_id]["user_name"] == "ann"
        assert world.submissions[0]["account"] == "chem"
        world.pod_ends("Succeeded")
        await world.until(lambda: world.signals)
        assert world.slurm.ended_by == [(job_id, "ann")]


async def test_a_service_is_the_allocation_of_its_user(world, tmp_path):
    world.slurm.room = "n1"
    async with leading(world, tmp_path, access=ANNS) as server, hook_client(server) as call:
        pod = world.add_pod(restartPolicy="Always")
        await world.until(lambda: world.jobs)
        ((job_id, job),) = world.jobs.items()
        assert (job["user_name"], job["admin_comment"], job["batch_flag"]) == ("ann", comment_of(pod), False)
        assert await call("prolog", job_id) == (200, {"done": True})
        world.pod_ends("Failed")
        await world.until(lambda: world.cancelled)
        assert world.slurm.ended_by == [(job_id, "ann")]


async def test_a_pod_may_name_another_user_of_its_namespace_and_nobody_else(world, tmp_path):
    async with leading(world, tmp_path, access=ANNS):
        world.add_pod("bobs", annotations={"sunkpy.dev/user": "bob"})
        world.add_pod("zoes", annotations={"sunkpy.dev/user": "zoe"})
        world.add_pod("roots", annotations={"sunkpy.dev/user": "root"})
        await world.until(lambda: len(world.notes("FailedScheduling")) == 2 and world.jobs)
        assert [job["user_name"] for job in world.jobs.values()] == ["bob"]
        said = "\n".join(world.notes("FailedScheduling"))
        assert "namespace default may not use user zoe: it may use ann, bob" in said
        assert "annotation sunkpy.dev/user: 'root' is not the name of a person" in said


async def test_a_change_of_a_pods_annotations_is_asked_as_its_user(world, tmp_path):
    async with leading(world, tmp_path, access=(AccessRule(namespaces=("*",), users=("ann",), qos=("*",)),)):
        pod = world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        pod["metadata"]["annotations"]["sunkpy.dev/qos"] = "fast"
        world.put("pods", pod)
        await world.until(lambda: world.jobs[job_id].get("qos") == "fast")
        assert "extra" not in world.jobs[job_id]


async def test_what_slurm_refuses_its_user_stands_on_the_pod(world, tmp_path):
    world.slurm.unknown_users.add("ann")
    async with leading(world, tmp_path, access=ANNS):
        world.add_pod()
        await world.until(lambda: world.notes("FailedScheduling"))
        (said, *_) = world.notes("FailedScheduling")
        assert "submit job web as ann (account chem)" in said
        assert "make the user known where slurmctld runs" in said


async def test_the_job_of_a_user_who_is_gone_is_ended_all_the_same(world, tmp_path):
    async with leading(world, tmp_path, access=ANNS):
        world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.slurm.unknown_users.add("ann")
        world.pod_is_gone()
        await world.until(lambda: world.cancelled)
        assert world.slurm.ended_by == [(job_id, "slurm")]


async def test_a_job_under_the_id_of_a_pods_job_that_is_not_the_pods_is_not_ended_with_the_rights_of_slurm(
    world, tmp_path
):
    async with leading(world, tmp_path, access=ANNS, poll_seconds=3600.0):
        world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.slurm.unknown_users.add("ann")
        world.set_job(job_id, "PENDING", comment="", admin_comment="", user_name="bob")
        asked = world.slurm.asked.count(f"job {job_id}")
        world.pod_is_gone()
        await world.until(lambda: world.slurm.asked.count(f"job {job_id}") > asked)
        assert (world.cancelled, world.slurm.ended_by) == ([], [])


async def test_a_new_leader_finds_the_jobs_of_people_whatever_they_wrote_into_the_comments(world, tmp_path):
    pod = world.add_pod(node="node-1", running=True)
    job_id = world.add_job(pod, "RUNNING", user="ann", nodes="n1", comment="mine", admin_comment=comment_of(pod))
    async with leading(world, tmp_path, access=ANNS) as server, hook_client(server) as call:
        world.set_job(job_id, "CANCELLED", "COMPLETING", nodes="n1")
        epilog = asyncio.ensure_future(call("epilog", job_id))
        await world.until(lambda: world.deleted)
        assert not epilog.done()
        world.pod_is_gone()
        assert await epilog == (200, {"done": True})
        assert world.submissions == []


async def test_a_comment_that_its_owner_edits_neither_loses_nor_ends_the_pods(world, tmp_path):
    async with leading(world, tmp_path, access=ANNS) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "RUNNING", comment="k8s:default/other:uid")
        world.pod_ends("Succeeded")
        await world.until(lambda: world.signals == [(job_id, "USR1")])
        assert (world.deleted, len(world.submissions)) == ([], 1)


@pytest.mark.parametrize("owner", ["ann", "mallory"])
async def test_a_job_that_somebody_made_look_like_a_placeholder_is_none(world, tmp_path, owner):
    """Neither is a pod bound by it, nor is it taken for that of the pod, and nobody ends it."""
    pod = world.add_pod()
    forged = world.add_job(pod, "RUNNING", user=owner, nodes="n1")
    async with leading(world, tmp_path, access=ANNS, sweep_seconds=0.05) as server, hook_client(server) as call:
        assert (await call("prolog", forged)) == (200, {"done": True, "why": "not the job of a pod"})
        await world.until(lambda: world.submissions)
        (own,) = set(world.jobs) - {forged}
        world.set_job(own, "RUNNING", nodes="n2")
        await call("prolog", own, node=2)
        await world.until(lambda: world.bindings)
        assert world.pod()["metadata"]["annotations"][names.ANNOTATION_JOB_ID] == str(own)
        assert world.cancelled == []


@pytest.mark.parametrize("restart_policy", ["Never", "Always"])
async def test_without_the_script_of_the_chart_no_job_of_a_person_gets_a_pod(
    world, tmp_path, monkeypatch, restart_policy
):
    monkeypatch.setattr("sunkpy.scheduler.jobs.due._FIRST_REASON_S", 0.0)
    world.slurm.seals, world.slurm.room = False, "n1"
    async with leading(world, tmp_path, access=ANNS):
        world.add_pod(restartPolicy=restart_policy)
        await world.until(lambda: world.cancelled)
        (job_id,) = world.cancelled
        await world.until(lambda: world.notes("FailedScheduling"))
        assert f"slurmctld has not sealed Slurm job {job_id}" in world.notes("FailedScheduling")[-1]
        assert world.bindings == []


async def test_an_allocation_that_was_not_sealed_and_has_ended_keeps_nobody_from_the_next(world, tmp_path, monkeypatch):
    monkeypatch.setattr("sunkpy.scheduler.record._BACKOFF_FIRST_S", 0.01)
    world.slurm.seals, world.slurm.room = False, "n1"
    async with leading(world, tmp_path, access=ANNS):
        world.add_pod(restartPolicy="Always")
        await world.until(lambda: world.cancelled)
        world.slurm.seals = True
        await world.until(lambda: len(world.jobs) == 2)


async def test_an_annotation_of_the_namespace_opens_it_to_its_users(world, tmp_path):
    world.api.define("v1", "Namespace", "namespaces", namespaced=False)
    async with leading(world, tmp_path, access=(), annotated_access=True):
        world.add_pod()
        await world.until(lambda: world.notes("FailedScheduling"))
        assert ("the scheduler does not know yet what namespace default may ask of Slurm") in world.notes(
            "FailedScheduling"
        )[0]
        world.put("namespaces", {"metadata": {"name": "default", "annotations": {"sunkpy.dev/users": "ann"}}})
        await world.until(lambda: world.submissions)
        assert [job["user_name"] for job in world.jobs.values()] == ["ann"]


async def test_a_pod_that_was_put_on_a_node_by_hand_asks_for_no_more_than_its_namespace_may(world, tmp_path):
    asked = {"user": "zoe", "partition": "high", "account": "physics", "qos": "urgent", "reservation": "night"}
    notes = {f"sunkpy.dev/{name}": value for name, value in asked.items()}
    async with leading(world, tmp_path, access=ANNS, default_partition="low"):
        world.add_pod(node="node-1", running=True, annotations=notes)
        await world.until(lambda: world.submissions)
        (job,) = world.jobs.values()
        assert job["user_name"] == "ann"
        (asked,) = world.submissions
        assert {name: asked.get(name) for name in ("partition", "account", "qos", "reservation")} == {
            "partition": "low", "account": "chem", "qos": None, "reservation": None,
        }  # fmt: skip
