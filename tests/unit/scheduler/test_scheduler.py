"""The scheduler from end to end against a small apiserver and a small slurmrestd (world.py)."""

import asyncio
import contextlib

import aiohttp
import pytest

from sunkpy.core import names
from sunkpy.runtime.election import Identity
from sunkpy.scheduler.hooks import answers as hooks_module
from tests.unit.scheduler.world import World, leading, serving, token_of_slurmd


@pytest.fixture
def world():
    world = World()
    world.add_node(1)
    world.add_node(2)
    return world


@contextlib.asynccontextmanager
async def hook_client(server):
    """Calls of hooks: `await call("prolog", job, node=1)` gives status and body."""
    async with serving(server.app()) as port, aiohttp.ClientSession() as session:

        async def call(hook, job_id, *, node=1, token=None, speaks_for=None, **more):
            body = {"job_id": job_id, "node": speaks_for or f"n{node}"} | more
            headers = {"Authorization": f"Bearer {token or token_of_slurmd(node)}"}
            url = f"http://127.0.0.1:{port}/hooks/v1/{hook}"
            async with session.post(url, json=body, headers=headers, allow_redirects=False) as answer:
                text = await answer.json(content_type=None) if answer.status != 307 else answer.headers["Location"]
                return answer.status, text

        yield call


async def bound_pod(world, call, **pod):
    """A pod that runs under its job on n1; gives the job's id."""
    world.add_pod(**pod)
    await world.until(lambda: world.submissions)
    (job_id,) = world.jobs
    world.set_job(job_id, "RUNNING", "CONFIGURING", nodes="n1")
    assert await call("prolog", job_id) == (200, {"done": True})
    await world.until(lambda: world.pod()["spec"].get("nodeName"))  # a prolog may end as the binding is sent
    world.set_job(job_id, "RUNNING", nodes="n1")
    world.pod_runs()
    return job_id


async def test_a_pod_becomes_a_job_and_is_bound_when_the_prolog_calls(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        assert world.bindings == [("web", "node-1")]
        meta = world.pod()["metadata"]
        assert meta["annotations"] == {
            names.ANNOTATION_JOB_ID: str(job_id),
            names.ANNOTATION_GANG_ID: f"k8s:default/web:{meta['uid']}",
            names.ANNOTATION_PLACED_ON: "n1",
        }
        assert len(world.submissions) == 1


async def test_what_its_maker_wrote_in_the_place_of_the_note_does_not_stay(world, tmp_path):
    forged = {names.ANNOTATION_GPU_INDICES: "0,1", names.ANNOTATION_DEVICES: "n/g", names.ANNOTATION_JOB_ID: "4711"}
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call, annotations=forged)
        noted = world.pod()["metadata"]["annotations"]
    assert noted[names.ANNOTATION_JOB_ID] == str(job_id)
    assert (noted[names.ANNOTATION_GPU_INDICES], noted[names.ANNOTATION_DEVICES]) == ("", "")


async def test_a_pod_is_bound_late_when_its_prolog_was_not_heard(world, tmp_path):
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.submissions)
        world.set_job(*world.jobs, "RUNNING", nodes="n2")
        await world.until(lambda: world.bindings == [("web", "node-2")])


@pytest.mark.parametrize("status", [403, 422, 500])
async def test_a_pod_is_evicted_though_nobody_takes_the_condition_that_says_why(world, tmp_path, status):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.api.refuse_status = status
        world.set_job(job_id, "CANCELLED", nodes="n1")
        await world.until(lambda: world.deleted == ["web"])


@pytest.mark.parametrize(("phase", "signal"), [("Succeeded", "USR1"), ("Failed", "USR2")])
async def test_the_job_learns_how_its_pod_ended(world, tmp_path, phase, signal):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.pod_ends(phase)
        await world.until(lambda: world.signals == [(job_id, signal)])
        world.set_job(job_id, "COMPLETED", "COMPLETING", nodes="n1")
        assert await call("epilog", job_id) == (200, {"done": True})
        assert world.deleted == []


async def test_the_epilog_returns_only_when_the_evicted_pod_is_gone(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        preemptor = world.add_job(world.add_pod("preemptor"), "PENDING", user="alice", partition="high", comment="")
        world.set_job(job_id, "PREEMPTED", "COMPLETING")
        epilog = asyncio.ensure_future(call("epilog", job_id))
        await world.until(lambda: world.deleted == ["web"])

        def told():
            (condition,) = [c for c in world.pod()["status"]["conditions"] if c["type"] == "DisruptionTarget"]
            return condition

        assert told()["reason"] == "PreemptionByScheduler"
        by = f"was preempted by Slurm job {preemptor} (user alice, partition high)"
        await world.until(lambda: told()["message"] == f"Slurm job {job_id} {by}")
        assert told()["reason"] == "PreemptionByScheduler"
        assert not epilog.done()
        assert oldest_handover_s(world) > 0
        world.pod_is_gone()
        assert await epilog == (200, {"done": True})
        assert world.deleted == ["web"]
        assert oldest_handover_s(world) == 0


def oldest_handover_s(world: World) -> float:
    """What Prometheus reads now."""
    (family,) = world.term._leader.metrics.oldest_handover_seconds.collect()
    return family.samples[0].value


async def test_a_long_epilog_is_told_to_ask_again(world, tmp_path, monkeypatch):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        monkeypatch.setattr(hooks_module, "LONG_POLL_S", 0.05)
        world.set_job(job_id, "CANCELLED", "COMPLETING")
        status, answer = await call("epilog", job_id)
        assert (status, answer["done"]) == (202, False)
        assert "default/web is not gone yet" in answer["why"]


async def test_an_epilog_waits_for_the_object_and_not_only_for_its_containers(world, tmp_path):
    pod = world.add_pod(node="node-1", running=True)
    job_id = world.add_job(pod, "RUNNING", nodes="n1")
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        world.set_job(job_id, "CANCELLED", "COMPLETING", nodes="n1")
        epilog = asyncio.ensure_future(call("epilog", job_id))
        await world.until(lambda: world.deleted == ["web"])
        world.pod_ends("Failed")
        done, _ = await asyncio.wait({epilog}, timeout=0.2)
        assert not done
        world.pod_is_gone()
        assert await epilog == (200, {"done": True})


async def test_a_job_that_ends_without_an_epilog_still_costs_its_pod_the_node(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "TIMEOUT")
        await world.until(lambda: world.deleted == ["web"])
        assert any("reached its time limit" in note for note in world.notes("SlurmJobTimeout")) or await world.until(
            lambda: world.notes("SlurmJobTimeout")
        )


async def test_a_deleted_pod_takes_its_pending_job_with_it(world, tmp_path):
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.submissions)
        world.pod_is_gone()
        await world.until(lambda: world.cancelled == list(world.jobs))


async def test_a_new_leader_takes_over_jobs_and_pods_and_submits_nothing_twice(world, tmp_path):
    waiting = world.add_job(world.add_pod("waiting"), "PENDING")
    running = world.add_job(world.add_pod("running", node="node-1", running=True), "RUNNING", nodes="n1")
    orphan = world.add_job({"metadata": {"name": "gone", "namespace": "default", "uid": "uid-gone"}}, "PENDING")
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        await world.until(lambda: world.cancelled == [orphan])
        world.set_job(waiting, "RUNNING", nodes="n2")
        assert await call("prolog", waiting, node=2) == (200, {"done": True})
        assert world.submissions == []
        world.set_job(running, "CANCELLED")
        await world.until(lambda: world.deleted == ["running"])


async def test_the_job_of_a_pod_that_is_not_watched_stays(world, tmp_path):
    job_id = world.add_job(world.add_pod(node="node-1", running=True, schedulerName="renamed"), "RUNNING", nodes="n1")
    note = {names.ANNOTATION_JOB_ID: "4711", names.ANNOTATION_GANG_ID: world.jobs[job_id]["comment"]}
    world.api.change("pods", "default", "web", {"metadata": {"annotations": note}})
    gone = world.add_job({"metadata": {"name": "gone", "namespace": "default", "uid": "uid-gone"}}, "PENDING")
    async with leading(world, tmp_path):
        await world.until(lambda: gone in world.cancelled)
        assert job_id not in world.cancelled


async def test_a_submit_whose_answer_was_lost_is_not_repeated(world, tmp_path):
    world.lose_next_answer = True
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.set_job(job_id, "RUNNING", nodes="n1")
        assert await call("prolog", job_id) == (200, {"done": True})
        assert len(world.submissions) == 1


async def test_a_refused_submit_says_what_to_change_and_is_repeated_when_it_was(world, tmp_path):
    world.reject_submit = 2000
    async with leading(world, tmp_path):
        pod = world.add_pod(annotations={"sunkpy.dev/partition": "nope"})
        await world.until(lambda: any("name a partition" in note for note in world.notes("FailedScheduling")))
        world.reject_submit = None
        pod["metadata"]["annotations"] = {"sunkpy.dev/partition": "low"}
        world.put("pods", pod)
        await world.until(lambda: world.submissions)


async def test_a_pod_that_fits_nowhere_is_told_so_and_submitted_when_a_node_comes(world, tmp_path):
    async with leading(world, tmp_path):
        world.add_pod(cpu="8")
        await world.until(
            lambda: any("2 lacks cpu: needs 8, has 4" in note for note in world.notes("FailedScheduling"))
        )
        assert world.submissions == []
        world.add_node(3, cpu="16")
        await world.until(lambda: world.submissions)
        assert world.submissions[0]["excluded_nodes"] == ["n1", "n2"]


async def test_a_node_more_of_a_nodeset_that_will_not_do_is_no_change_for_jobs_that_wait(world, tmp_path):
    def join(number, nodeset, **allocatable):
        world.add_node(number, registers=False, **allocatable)
        world.api.change("pods", "slurm", f"slurmd-{number}", {"metadata": {"labels": {names.LABEL_NODESET: nodeset}}})
        world.slurm.put(f"n{number}", features=[nodeset])
        world.register(number)

    for number in (1, 2):
        join(number, "small")
    join(3, "large", cpu="16")
    async with leading(world, tmp_path):
        world.add_pod(cpu="8", annotations={"sunkpy.dev/constraint": "ib"})
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.set_job(job_id, "PENDING", state_reason="Resources")
        join(4, "small")
        join(5, "huge", cpu="32")
        await world.until(lambda: world.slurm.updates)
    assert (world.submissions[0]["constraints"], world.submissions[0].get("excluded_nodes")) == ("ib&large", None)
    assert world.slurm.updates == [{"constraints": "ib&(huge|large)"}]
    assert not world.jobs[job_id].get("excluded_nodes")


@pytest.mark.parametrize(
    ("waits_for", "reason"),
    [
        ("Priority", "WaitingForSlurm"),
        ("Resources", "Unschedulable"),
        pytest.param("PartitionConfig", "Unschedulable", id="the last node of its partition has gone"),
    ],
)
async def test_autoscalers_buy_a_node_only_for_a_pod_that_one_would_help(world, tmp_path, waits_for, reason):
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.submissions)
        world.set_job(*world.jobs, "PENDING", state_reason=waits_for)
        (condition,) = await world.until(lambda: world.pod()["status"].get("conditions"), within_s=30.0)
        assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", reason)


async def test_a_node_is_used_as_soon_as_its_slurmd_pod_says_that_it_is_registered(world, tmp_path):
    async with leading(world, tmp_path):
        world.add_pod(cpu="8")
        world.add_node(3, registers=False, cpu="16")
        await world.until(lambda: world.notes("FailedScheduling"))
        world.register(3)
        await world.until(lambda: world.submissions, within_s=3.0)


async def test_a_pod_that_the_kubelet_would_refuse_gives_the_node_back(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        world.add_pod(cpu="4")
        await world.until(lambda: world.submissions)
        world.put(
            "pods",
            {
                "metadata": {"name": "daemon", "namespace": "kube-system"},
                "spec": {"nodeName": "node-1", "containers": [{"resources": {"requests": {"cpu": "1"}}}]},
                "status": {"phase": "Running"},
            },
        )
        (job_id,) = world.jobs
        world.set_job(job_id, "RUNNING", "CONFIGURING", nodes="n1")
        assert await call("prolog", job_id) == (200, {"done": True})
        assert world.bindings == []
        assert world.cancelled == [job_id]
        lacks = "node node-1 lacks cpu: needs 4, has 3"
        await world.until(lambda: any(lacks in note for note in world.notes("FailedScheduling")))


async def test_nothing_happens_to_pods_while_slurm_cannot_be_read(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.slurm_is_up = False
        world.jobs.clear()
        status, answer = await call("prolog", 4711)
        assert status == 503
        assert "done" in answer
        assert world.deleted == []
        world.slurm_is_up = True
        # Slurm has lost the job: the pod stays, and a new job is made to hold its node.
        await world.until(lambda: len(world.submissions) == 2)
        assert world.submissions[1]["required_nodes"] == ["n1"]
        assert world.deleted == []
        (new,) = world.jobs
        assert new != job_id
        world.set_job(new, "RUNNING", nodes="n1")
        assert await call("prolog", new) == (200, {"done": True})
        await world.until(lambda: world.pod()["metadata"]["annotations"][names.ANNOTATION_JOB_ID] == str(new))


@pytest.mark.parametrize(
    ("call_with", "status"),
    [
        ({"token": "unknown"}, 401),
        ({"speaks_for": "n2"}, 403),
    ],
)
async def test_a_node_speaks_only_for_itself(world, tmp_path, call_with, status):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        assert (await call("prolog", 1, **call_with))[0] == status


async def test_jobs_that_are_not_of_pods_are_let_through(world, tmp_path):
    pod = world.add_pod(node="node-1", running=True)
    forged = world.add_job(pod, "RUNNING", user="mallory", nodes="n1")
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        for job_id in (forged, 4711):
            assert (await call("epilog", job_id))[1]["done"]
        assert world.deleted == []


async def test_a_standby_sends_hooks_to_the_leader(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        server.hooks = None
        assert (await call("prolog", 1))[0] == 503
        server.leader = lambda: Identity(name="other", address="10.0.0.9")
        assert await call("prolog", 1) == (307, "http://10.0.0.9:0/hooks/v1/prolog")
