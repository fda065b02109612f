"""A leader may lead for months: what it remembers shrinks with what it speaks of."""

import contextlib
from collections import deque
from collections.abc import Mapping, Set
from weakref import WeakValueDictionary

import cachetools
import pytest

from sunkpy.core import names
from sunkpy.core.gang.identity import GangId
from sunkpy.scheduler.pods.index import extra_id
from tests.unit.core.gang.pods import make_pod
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading

FEW, SOME, MANY = 3, 5, 20


@pytest.fixture
def world():
    world = World()
    for number in (1, 2):
        world.add_node(number)
    node = world.api.objects["nodes", "", "node-1"]
    world.put("nodes", node | {"metadata": node["metadata"] | {"labels": {"pool": "blue"}}})
    return world


def sizes(root):
    """How much is in each collection that is found from an object of ours, by the names that lead there."""
    found, seen = {}, set()
    left = deque([("", root)])
    while left:
        path, value = left.popleft()
        if id(value) in seen or path.endswith("._timers"):  # these end by themselves
            continue
        seen.add(id(value))
        if isinstance(value, cachetools.Cache | WeakValueDictionary):  # it has a bound, or keeps nothing alive
            continue
        if isinstance(value, Mapping | Set | list | deque):
            found[path] = found.get(path, 0) + len(value)
            parts = value.values() if isinstance(value, Mapping) else value
            left.extend((f"{path}[]", part) for part in parts)
        elif callable(value) and hasattr(value, "__self__"):
            left.append((path, value.__self__))
        elif type(value).__module__.startswith("sunkpy."):
            slots = {name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())}
            for name in [*getattr(value, "__dict__", ()), *slots]:
                left.append((f"{path}.{name}".lstrip("."), getattr(value, name, None)))
    return found


def put_node(world, number, **metadata):
    node = world.api.objects["nodes", "", f"node-{number}"]
    world.put("nodes", node | {"metadata": node["metadata"] | metadata})


async def bound(world, number, *, node=1, pool="blue", **pod):
    """A pod that asks for nodes as no other does, and may not go to all of them; gives its name and its job."""
    name, jobs = f"web-{number}", set(world.jobs)
    world.add_pod(name, tolerations=[{"key": name, "operator": "Exists"}], nodeSelector={"pool": pool}, **pod)
    await world.until(lambda: set(world.jobs) - jobs)
    (job,) = set(world.jobs) - jobs
    world.set_job(job, "RUNNING", nodes=f"n{node}")
    await world.until(lambda: (name, f"node-{node}") in world.bindings)
    world.pod_runs(name)
    return name, job


async def ends(world, call, number):
    name, job = await bound(world, number)
    world.pod_ends("Succeeded", name)
    await world.until(lambda: (job, "USR1") in world.signals)
    world.set_job(job, "COMPLETED", nodes="n1")
    assert await call("epilog", job) == (200, {"done": True})
    world.pod_is_gone(name)


async def is_preempted(world, call, number):
    name, job = await bound(world, number)
    world.set_job(job, "PREEMPTED", nodes="n1")
    await world.until(lambda: name in world.deleted)
    world.pod_is_gone(name)
    assert await call("epilog", job) == (200, {"done": True})


async def leaves_the_queue(world, call, number):
    name, jobs = f"web-{number}", set(world.jobs)
    world.add_pod(name)
    await world.until(lambda: set(world.jobs) - jobs)
    (job,) = set(world.jobs) - jobs
    world.pod_is_gone(name)
    await world.until(lambda: job in world.cancelled)
    world.set_job(job, "CANCELLED")


async def bears_the_note_of_another(world, call, number):
    """As a copy of a pod does, with all its annotations."""
    stranger = world.slurm.add_job("RUNNING", comment="", user="alice", nodes="n2")
    name, job = await bound(world, number, annotations={names.ANNOTATION_JOB_ID: str(stranger)})
    await world.until(lambda: f"job {stranger}" in world.slurm.asked)
    world.pod_ends("Succeeded", name)
    await world.until(lambda: (job, "USR1") in world.signals)
    world.set_job(job, "COMPLETED", nodes="n1")
    assert await call("epilog", job) == (200, {"done": True})
    world.pod_is_gone(name)


async def comes_and_goes_with_its_node(world, call, number):
    node = 100 + number
    world.add_node(node)
    put_node(world, node, labels={"pool": "green"})
    name, job = await bound(world, number, node=node, pool="green")
    world.pod_ends("Succeeded", name)
    await world.until(lambda: (job, "USR1") in world.signals)
    world.set_job(job, "COMPLETED", nodes=f"n{node}")
    assert await call("epilog", job, node=node) == (200, {"done": True})
    world.pod_is_gone(name)
    world.remove("pods", "slurm", f"slurmd-{node}")
    world.remove("nodes", "", f"node-{node}")
    world.slurm.forget(f"n{node}")
    await world.until(lambda: world.term._cluster.nodes.get("", f"node-{node}") is None)


LIVES = [ends, is_preempted, leaves_the_queue, bears_the_note_of_another, comes_and_goes_with_its_node]


@pytest.mark.parametrize("live", LIVES)
async def test_of_pods_that_came_and_went_nothing_is_remembered(world, tmp_path, live):
    world.hasten(noted_after_s=0.05, occupancy_each_s=0.1, nodes_each_s=0.1, preemptors_each_s=0.1)
    async with leading(world, tmp_path, sweep_seconds=0.2) as server, hook_client(server) as call:

        async def live_and_be_forgotten(number):
            await live(world, call, number)
            await world.until(lambda: not len(world.term._ledger))
            world.jobs.clear()

        def grown():
            return {path: size for path, size in sizes(world.term).items() if size > before.get(path, 0) + SOME}

        for number in range(FEW):
            await live_and_be_forgotten(number)
        before = sizes(world.term)
        for number in range(FEW, MANY):
            await live_and_be_forgotten(number)
        with contextlib.suppress(TimeoutError):
            await world.until(lambda: not grown(), within_s=5.0)
        assert grown() == {}


async def test_whose_the_jobs_are_that_an_earlier_leader_noted_is_forgotten_with_their_pods(world, tmp_path):
    pods = [f"web-{number}" for number in range(MANY)]
    jobs = {}
    for name in pods:
        pod = world.add_pod(name, node="node-1", running=True)
        jobs[name] = world.add_job(pod, "RUNNING", nodes="n1")
        annotations = {names.ANNOTATION_JOB_ID: str(jobs[name])}
        world.put("pods", pod | {"metadata": pod["metadata"] | {"annotations": annotations}})
    async with leading(world, tmp_path, sweep_seconds=0.2) as server, hook_client(server) as call:
        noted = world.term._takeover.jobs
        await world.until(lambda: world.term._ledger.all_jobs_known)
        assert len(noted.whose) == MANY
        for name in pods[1:]:
            world.pod_is_gone(name)
            world.set_job(jobs[name], "COMPLETED", nodes="n1")
            assert await call("epilog", jobs[name]) == (200, {"done": True})
        await world.until(lambda: list(noted.whose) == [jobs["web-0"]])


async def test_a_pod_that_went_before_its_binding_was_sent_takes_no_room_though_the_binding_was_not_answered(
    world, tmp_path
):
    async def goes(selector):
        if selector.startswith("spec.nodeName=node-1,") and world.pod():
            world.pod_vanishes()
            await world.until(lambda: world.term._cluster.pods.get("default", "web") is None)

    world.api.before_list, world.api.loses_bindings = goes, True
    world.hasten(watch_settles_s=3600.0)  # so that it is asked
    async with leading(world, tmp_path):
        world.add_pod(cpu="3")
        await world.until(lambda: world.jobs)
        (job,) = world.jobs
        world.set_job(job, "RUNNING", nodes="n1")
        await world.until(lambda: job in world.cancelled)
        world.set_job(job, "CANCELLED")
        world.api.loses_bindings = False
        world.add_pod("next", cpu="3")
        await world.until(lambda: len(world.jobs) == 2)
        world.set_job(max(world.jobs), "RUNNING", nodes="n1")
        await world.until(lambda: ("next", "node-1") in world.bindings)
        assert len(world.jobs) == 2


async def test_an_extra_that_was_gone_before_its_job_was_found_is_forgotten_with_the_job(world, tmp_path):
    base = GangId(namespace="default", name="web", uid="uid-of-web")
    comments = [extra_id(base, make_pod(uid=f"uid-{number}")).comment("") for number in range(SOME)]
    async with leading(world, tmp_path, sweep_seconds=0.1):
        jobs = [world.slurm.add_job("PENDING", comment=comment) for comment in comments]
        await world.until(lambda: set(world.cancelled) == set(jobs))
        world.jobs.clear()
        await world.until(lambda: not len(world.term._ledger))
        await world.until(lambda: not world.term._members._solo._known, within_s=1.0)


async def test_of_nodes_and_slurmd_pods_no_text_of_other_programs_is_kept(world, tmp_path):
    foreign = {"example.com/features": "x" * 1000}
    put_node(world, 1, annotations=foreign)
    slurmd = world.api.objects["pods", "slurm", "slurmd-1"]
    world.put("pods", slurmd | {"metadata": slurmd["metadata"] | {"annotations": foreign}})
    async with leading(world, tmp_path):
        cluster = world.term._cluster
        await world.until(lambda: cluster.nodes.get("", "node-1") and cluster.slurmd_of("n1"))
        assert not cluster.nodes.get("", "node-1").annotations
        assert not cluster.slurmd_of("n1").annotations
        assert not cluster.slurmd_of("n1").status.container_statuses
