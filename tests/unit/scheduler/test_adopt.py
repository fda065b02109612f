"""What a new leader takes over, and what it does before it knows of all jobs."""

import asyncio

import pytest

from sunkpy.core import names
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading

OF_GANG = {names.ANNOTATION_GANG: "train", names.ANNOTATION_GANG_SIZE: "2"}


@pytest.fixture
def world():
    world = World()
    for number in (1, 2, 3):
        world.add_node(number)
    return world


@pytest.fixture
def unread(world):
    """A job of a user that cannot be read: it may be anything."""
    job_id = world.slurm.add_job("PENDING", comment="", user="alice")
    world.slurm.unreadable.add(job_id)
    return job_id


def let_read(world):
    world.slurm.unreadable.clear()
    world.note_change()


def add_bound(world, name, number, *, note=None, running=True):
    """A pod that a leader bound, by the job that is noted on it, and its job."""
    job_id = world.add_job({"metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"}}, "RUNNING")
    world.set_job(job_id, "RUNNING", nodes=f"n{number}")
    noted = str(job_id) if note is None else note
    pod = world.add_pod(
        name, node=f"node-{number}", running=running, annotations={names.ANNOTATION_JOB_ID: noted} if noted else {}
    )
    world.jobs[job_id]["comment"] = f"k8s:default/{name}:{pod['metadata']['uid']}"
    return job_id


async def test_hooks_are_answered_and_pods_told_to_go_while_other_jobs_cannot_be_read(world, tmp_path, unread):
    job_id = add_bound(world, "web", 1)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        assert await call("prolog", job_id) == (200, {"done": True})
        world.set_job(job_id, "PREEMPTED", "COMPLETING", nodes="n1")
        asking = asyncio.ensure_future(call("epilog", job_id))
        await world.until(lambda: world.deleted == ["web"])
        world.pod_is_gone()
        assert await asking == (200, {"done": True})
        assert world.slurm.unreadable == {unread}


async def test_a_pod_is_bound_by_the_job_that_is_noted_on_it_while_other_jobs_cannot_be_read(world, tmp_path, unread):
    job_id = world.add_job(world.add_pod(), "PENDING")
    world.api.change("pods", "default", "web", {"metadata": {"annotations": {names.ANNOTATION_JOB_ID: str(job_id)}}})
    async with leading(world, tmp_path):
        world.set_job(job_id, "RUNNING", nodes="n2")
        await world.until(lambda: world.bindings == [("web", "node-2")])


async def test_nothing_is_submitted_before_all_jobs_are_known(world, tmp_path, unread):
    """An earlier leader has submitted for one of them, and died before it noted that."""
    submitted = world.add_job(world.add_pod("submitted"), "PENDING")
    world.add_pod("waiting")
    world.slurm.unreadable.add(submitted)
    bound = add_bound(world, "bound", 1)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        world.add_pod("new")
        assert (await call("prolog", bound))[0] == 200
        await world.until(lambda: f"job {submitted}" in world.slurm.asked)
        assert world.submissions == []
        let_read(world)
        await world.until(lambda: len(world.submissions) == 2)
        assert {job["name"] for job in world.submissions} == {"waiting", "new"}
        world.set_job(submitted, "RUNNING", nodes="n2")
        await world.until(lambda: ("submitted", "node-2") in world.bindings)


async def test_a_prolog_shows_the_job_that_nobody_has_noted(world, tmp_path, unread):
    job_id = world.add_job(world.add_pod(), "RUNNING", nodes="n2")
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        assert await call("prolog", job_id, node=2) == (200, {"done": True})
        await world.until(lambda: world.bindings == [("web", "node-2")])  # the prolog may end as it is sent


@pytest.mark.parametrize("note", ["", "4711", "none", "of another"])
async def test_a_wrong_note_costs_nobody_anything_and_waits_for_all_jobs(world, tmp_path, unread, note):
    world.hasten(displace_after_s=0.05)
    other = add_bound(world, "other", 1)
    job_id = add_bound(world, "web", 2, note=str(other) if note == "of another" else note)
    world.set_job(job_id, "PREEMPTED", "COMPLETING", nodes="n2")
    successor = world.slurm.add_job("RUNNING", comment="", user="alice", nodes="n2")
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        asking = asyncio.ensure_future(call("gate", successor, node=2))
        epilog = asyncio.ensure_future(call("epilog", job_id, node=2))
        assert (await call("prolog", other))[0] == 200
        await world.until(lambda: f"job {job_id}" in world.slurm.asked)
        await asyncio.sleep(0.3)
        assert (asking.done(), epilog.done()) == (False, False)
        assert (world.deleted, world.submissions, world.cancelled) == ([], [], [])
        let_read(world)
        await world.until(lambda: world.deleted == ["web"])
        world.pod_is_gone()
        assert await epilog == (200, {"done": True})
        assert (await asking)[0] == 200
        assert world.submissions == []


async def bound_gang(world, call, **pod):
    """Pods `a` and `b` run as one gang on two nodes; their job."""
    for name in ("a", "b"):
        world.add_pod(name, annotations=OF_GANG, **pod)
    await world.until(lambda: world.submissions)
    (job_id,) = world.jobs
    world.set_job(job_id, "RUNNING", nodes="n[1-2]")
    await asyncio.gather(call("prolog", job_id, node=1), call("prolog", job_id, node=2))
    await world.until(lambda: len(world.bindings) == 2)
    for name in ("a", "b"):
        world.pod_runs(name)
    return job_id


@pytest.mark.parametrize("now_of", [{}, {names.ANNOTATION_GANG: "other", names.ANNOTATION_GANG_SIZE: "1"}])
async def test_a_pod_whose_gang_is_written_otherwise_stays_under_its_job_when_another_leads(world, tmp_path, now_of):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_gang(world, call)
    node_of = dict(world.bindings)
    for name in ("a", "b"):
        world.api.change("pods", "default", name, {"metadata": {"annotations": dict.fromkeys(OF_GANG) | now_of}})
    number = int(node_of["a"].removeprefix("node-"))
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        world.set_job(job_id, "PREEMPTED", "COMPLETING", nodes="n[1-2]")
        epilog = asyncio.ensure_future(call("epilog", job_id, node=number))
        await world.until(lambda: set(world.deleted) == {"a", "b"})
        assert not epilog.done()
        world.pod_is_gone("a")
        assert await epilog == (200, {"done": True})
        assert len(world.submissions) == 1


@pytest.mark.parametrize("forged", [(names.ANNOTATION_JOB_ID,), (names.ANNOTATION_JOB_ID, names.ANNOTATION_GANG_ID)])
@pytest.mark.parametrize("number", [1, 3])
async def test_a_pod_with_the_note_of_a_gang_beside_it_stays_under_its_own_job_when_another_leads(
    world, tmp_path, number, forged
):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_gang(world, call, cpu="1")
        world.add_pod("web", cpu="1")
        await world.until(lambda: len(world.jobs) == 2)
        own = max(world.jobs)
        world.set_job(own, "RUNNING", nodes=f"n{number}")
        await call("prolog", own, node=number)
        await world.until(lambda: ("web", f"node-{number}") in world.bindings)
        world.pod_runs("web")
    note = {name: world.pod("a")["metadata"]["annotations"][name] for name in forged}
    assert note[names.ANNOTATION_JOB_ID] == str(job_id)
    world.api.change("pods", "default", "web", {"metadata": {"annotations": note}})
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        await world.until(lambda: world.term._ledger.all_jobs_known)
        assert (await call("prolog", own, node=number))[0] == 200
        await asyncio.sleep(0.5)
        assert (world.cancelled, world.deleted, len(world.submissions)) == ([], [], 2)
        world.set_job(own, "PREEMPTED", "COMPLETING", nodes=f"n{number}")
        await world.until(lambda: world.deleted == ["web"], within_s=5.0)


@pytest.mark.parametrize("unit", ["extra", "apart"])
@pytest.mark.parametrize("now_of", [{}, {names.ANNOTATION_GANG: "other", names.ANNOTATION_GANG_SIZE: "2"}])
@pytest.mark.parametrize("note", ["gang and job", "job alone"])
async def test_a_pod_beyond_the_places_of_its_gang_stays_under_its_job_whatever_it_says_when_another_leads(
    world, tmp_path, unit, now_of, note
):
    job_id = add_bound(world, "web", 1)
    uid = world.pod()["metadata"]["uid"]
    world.jobs[job_id]["comment"] = gang = f"k8s:default/train:uid-train/{unit}-{uid}"
    noted = {names.ANNOTATION_GANG_ID: gang} if note == "gang and job" else {}
    world.api.change("pods", "default", "web", {"metadata": {"annotations": now_of | noted}})
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        world.set_job(job_id, "PREEMPTED", "COMPLETING", nodes="n1")
        epilog = asyncio.ensure_future(call("epilog", job_id))
        await world.until(lambda: world.deleted == ["web"])
        assert not epilog.done()
        world.pod_is_gone()
        assert await epilog == (200, {"done": True})
        assert world.submissions == []


@pytest.mark.parametrize("unit", ["", "extra"])
async def test_a_pod_that_says_to_be_of_a_gang_beside_it_stays_under_the_job_that_names_it_when_another_leads(
    world, tmp_path, unit
):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        await bound_gang(world, call, cpu="1")
    own = add_bound(world, "web", 1)
    if unit:
        uid = world.pod()["metadata"]["uid"]
        world.jobs[own]["comment"] = f"k8s:default/former:uid-former/{unit}-{uid}"
    world.api.change("pods", "default", "web", {"metadata": {"annotations": OF_GANG}})
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        await world.until(lambda: world.term._ledger.all_jobs_known)
        assert (await call("prolog", own))[0] == 200
        await asyncio.sleep(0.3)
        assert (world.cancelled, world.signals, world.deleted, len(world.submissions)) == ([], [], [], 1)
        world.set_job(own, "PREEMPTED", "COMPLETING", nodes="n1")
        epilog = asyncio.ensure_future(call("epilog", own))
        await world.until(lambda: world.deleted == ["web"], within_s=5.0)
        assert not epilog.done()
        world.pod_is_gone()
        assert await epilog == (200, {"done": True})


async def test_pods_stay_in_the_gang_that_is_noted_when_slurm_has_forgotten_its_job_and_another_leads(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_gang(world, call)
    for name, now_of in (("a", {}), ("b", {names.ANNOTATION_GANG: "other", names.ANNOTATION_GANG_SIZE: "1"})):
        world.api.change("pods", "default", name, {"metadata": {"annotations": dict.fromkeys(OF_GANG) | now_of}})
    del world.jobs[job_id]
    async with leading(world, tmp_path):
        await world.until(lambda: world.term._ledger.all_jobs_known)
        ids = {world.term._members.find_id(pod) for pod in world.term._cluster.pods.values()}
        assert {id.name for id in ids} == {"train"}
        assert world.deleted == []


async def test_the_note_of_a_job_that_slurm_does_not_know_takes_no_pod_from_under_the_job_of_its_gang(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_gang(world, call)
    forged = {names.ANNOTATION_JOB_ID: "4711", names.ANNOTATION_GANG_ID: "k8s:default/other:uid-other"}
    world.api.change("pods", "default", "b", {"metadata": {"annotations": forged}})
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        await world.until(lambda: world.term._ledger.all_jobs_known)
        world.set_job(job_id, "PREEMPTED", "COMPLETING", nodes="n[1-2]")
        epilogs = [asyncio.ensure_future(call("epilog", job_id, node=number)) for number in (1, 2)]
        await world.until(lambda: set(world.deleted) == {"a", "b"}, within_s=5.0)
        assert [epilog.done() for epilog in epilogs] == [False, False]
        assert len(world.submissions) == 1
        for name in ("a", "b"):
            world.pod_is_gone(name)
        assert await asyncio.gather(*epilogs) == [(200, {"done": True})] * 2


async def test_pods_that_say_to_be_of_a_gang_on_the_same_nodes_stay_under_their_job_when_another_leads(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        first = await bound_gang(world, call, cpu="1")
        for name in ("c", "d"):
            world.add_pod(name, cpu="1", annotations=OF_GANG | {names.ANNOTATION_GANG: "second"})
        await world.until(lambda: len(world.jobs) == 2)
        second = max(world.jobs)
        world.set_job(second, "RUNNING", nodes="n[1-2]")
        await asyncio.gather(call("prolog", second, node=1), call("prolog", second, node=2))
        await world.until(lambda: len(world.bindings) == 4)
        for name in ("c", "d"):
            world.pod_runs(name)
    for name in ("c", "d"):
        world.api.change("pods", "default", name, {"metadata": {"annotations": OF_GANG}})
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        await world.until(lambda: world.term._ledger.all_jobs_known)
        for job_id in (first, second):
            assert (await call("prolog", job_id))[0] == 200
        await asyncio.sleep(0.3)
        assert (world.cancelled, world.signals, world.deleted, len(world.submissions)) == ([], [], [], 2)
        world.set_job(second, "PREEMPTED", "COMPLETING", nodes="n[1-2]")
        await world.until(lambda: set(world.deleted) == {"c", "d"}, within_s=5.0)


@pytest.mark.parametrize("unit", ["", "/extra-{uid}"])
@pytest.mark.parametrize("namespace", ["default", "elsewhere"])
async def test_no_job_takes_a_pod_that_says_and_notes_otherwise_whatever_uid_is_in_its_comment(
    world, tmp_path, unit, namespace
):
    own = add_bound(world, "web", 1)
    gang = world.jobs[own]["comment"] = "k8s:default/train:uid-train"
    world.api.change("pods", "default", "web", {"metadata": {"annotations": {names.ANNOTATION_GANG_ID: gang}}})
    uid = world.pod()["metadata"]["uid"]
    forged = f"k8s:{namespace}/web:{uid}" if not unit else f"k8s:{namespace}/other:uid-other{unit.format(uid=uid)}"
    world.slurm.add_job("RUNNING", comment=forged, nodes="n1")
    if namespace == "default" and not unit:
        world.api.change("pods", "default", "web", {"metadata": {"annotations": OF_GANG}})
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        await world.until(lambda: world.term._ledger.all_jobs_known)
        assert (await call("prolog", own))[0] == 200
        (pod,) = [pod for pod in world.term._cluster.pods.values() if pod.name == "web"]
        assert world.term._members.find_id(pod).uid == "uid-train"


@pytest.mark.parametrize("of", ["extra-uid-of-nobody", "apart-uid-of-nobody"])
async def test_the_job_of_one_pod_beyond_the_places_of_a_gang_is_not_anothers_by_its_note(world, tmp_path, of):
    other = add_bound(world, "other", 1)
    world.jobs[other]["comment"] = f"k8s:default/train:uid-train/{of}"
    own = add_bound(world, "web", 1, note=str(other))
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        await world.until(lambda: world.term._ledger.all_jobs_known)
        assert (await call("prolog", own))[0] == 200
        world.set_job(own, "PREEMPTED", "COMPLETING", nodes="n1")
        await world.until(lambda: "web" in world.deleted, within_s=5.0)


async def test_while_it_runs_the_job_of_a_pod_whose_gang_is_written_otherwise_is_not_ended(world, tmp_path):
    job_id = add_bound(world, "web", 1)
    other = {names.ANNOTATION_GANG: "other", names.ANNOTATION_GANG_SIZE: "1"}
    world.api.change("pods", "default", "web", {"metadata": {"annotations": other}})
    add_bound(world, "next", 2)
    world.add_pod("last")
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        await world.until(lambda: world.submissions)
        assert (await call("prolog", job_id))[0] == 200
        assert ([job["name"] for job in world.submissions], world.cancelled) == (["last"], [])


async def test_the_mark_of_a_job_that_is_not_known_yet_stays(world, tmp_path, unread):
    ended = world.add_job({"metadata": {"namespace": "default", "name": "gone", "uid": "uid"}}, "COMPLETED")
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        assert await call("gate", unread, marked=[ended]) == (200, {"done": True})
        let_read(world)
        await world.until(lambda: world.slurm.reading == 0)

        async def is_over():
            return (await call("gate", unread, marked=[ended]))[1].get("over") == [ended]

        while not await is_over():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_cover_that_waits_is_waited_for(world, tmp_path):
    """The job of the pod was lost, and the earlier leader has asked for another on the node that the pod has."""
    pod = world.add_pod(node="node-1", running=True, annotations={names.ANNOTATION_JOB_ID: "4711"})
    cover = world.add_job(pod, "PENDING", required_nodes="n1", tasks={"set": True, "number": 1})
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        await world.until(lambda: f"job {cover}" in world.slurm.asked)
        await asyncio.sleep(0.1)
        assert (world.deleted, world.cancelled, world.submissions) == ([], [], [])
        world.set_job(cover, "RUNNING", nodes="n1")
        assert (await call("prolog", cover))[0] == 200
        await world.until(lambda: world.pod()["metadata"]["annotations"][names.ANNOTATION_JOB_ID] == str(cover))
        assert world.deleted == []


async def test_a_few_jobs_are_read_at_a_time_and_those_of_others_once(world, tmp_path):
    mine = [add_bound(world, f"web-{number}", 1) for number in range(40)]
    theirs = [world.slurm.add_job("PENDING", comment="", user="alice") for _ in range(40)]
    ended = world.slurm.add_job("COMPLETED", comment="", user="alice")
    async with leading(world, tmp_path, sweep_seconds=0.02):
        world.add_pod("new")
        await world.until(lambda: world.submissions)
        asked = world.slurm.asked
        assert all(asked.count(f"job {job_id}") == 1 for job_id in [*mine, *theirs])
        assert "all jobs" not in asked
        assert f"job {ended}" not in asked
        assert world.slurm.most_reading <= 16


async def test_while_slurm_is_away_a_new_leader_tries_again_and_pods_stay(world, tmp_path):
    job_id = add_bound(world, "web", 1)
    world.slurm_is_up = False
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        world.add_pod("new")
        assert (await call("epilog", job_id))[0] == 503
        assert (world.deleted, world.submissions) == ([], [])
        world.slurm_is_up = True
        await world.until(lambda: world.submissions)
        assert (await call("prolog", job_id))[0] == 200
        assert world.deleted == []


async def test_a_prolog_that_is_faster_than_the_search_for_a_lost_answer_shows_the_job(world, tmp_path):
    world.hasten(late_submit_s=0.05)
    world.lose_next_answer = True
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        world.add_pod()
        await world.until(lambda: world.jobs)
        (job_id,) = world.jobs
        world.slurm.unreadable.add(world.slurm.add_job("PENDING", comment="", user="alice"))
        await world.until(lambda: world.slurm.reading)
        world.set_job(job_id, "RUNNING", nodes="n1")
        assert (await call("prolog", job_id))[0] in (200, 202)
        let_read(world)
        await world.until(lambda: world.bindings == [("web", "node-1")])
        assert len(world.submissions) == 1
