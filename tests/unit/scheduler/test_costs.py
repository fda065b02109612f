"""What a pod costs from its creation to its end: passes, and requests to both sides."""

import asyncio
from collections import Counter

import pytest

from sunkpy.core.gang.phases import GangState
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.loop import GangLoop
from sunkpy.scheduler.nodes.cluster import Cluster
from sunkpy.scheduler.pods.gangs import Gangs
from tests.unit.scheduler.counting import entered
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, leading

RARELY_S = 3600.0
BY_ZONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
        ]
    }
}


@pytest.fixture
def world():
    """`lists` are the nodes of which the pods were asked for."""
    world = World()
    world.add_node(1)
    world.lists = []

    async def note(selector):
        if selector.startswith("spec.nodeName="):
            world.lists.append(selector.split(",")[0].removeprefix("spec.nodeName="))

    world.api.before_list = note
    return world


def stranger(world, *, cpu):
    """Put a pod of another scheduler on node-1."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    spec = {"nodeName": "node-1", "schedulerName": "other", "containers": containers}
    meta = {"name": "stranger", "namespace": "other"}
    return world.put("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Running"}})


async def submit_and_fill_the_node(world):
    """A pod's job is submitted; then a pod of another scheduler takes node-1 whole, and the watch shows both."""
    world.add_pod()
    await world.until(lambda: world.submissions)
    stranger(world, cpu="4")
    await world.until(lambda: len(world.term._cluster.neighbours.on("node-1")) == 2)


async def test_a_pod_is_recognised_once_and_bound_in_two_passes_and_what_shows_it_needs_no_third(
    world, tmp_path, monkeypatch
):
    done = Counter()

    def count(part, name):
        does = getattr(part, name)

        def counted(*args):
            done[name] += 1
            return does(*args)

        monkeypatch.setattr(part, name, counted)

    count(GangLoop, "reconcile")
    count(Gangs, "_work_out")
    count(Collector, "snapshot")
    count(Collector, "known")
    count(Collector, "on_node")
    async with leading(world, tmp_path, poll_seconds=RARELY_S) as server, hook_client(server) as call:
        await world.until(lambda: world.term._ledger.all_jobs_known)  # else the pod has a pass before that
        world.add_pod("web")
        await world.until(lambda: world.submissions)
        (job,) = world.jobs
        world.set_job(job, "RUNNING", nodes="n1")
        assert await call("prolog", job) == (200, {"done": True})
        (record,) = world.term._ledger
        await world.until(lambda: any(pod.spec.node_name for pod in world.term._members.pods_of(record.id)))
        await world.until(lambda: record.state is GangState.BOUND)
        # A pass looks before it acts and afterwards, and the Prolog when it calls and when it is answered.
        assert done == {"_work_out": 1, "reconcile": 2, "snapshot": 2, "known": 2 + 2}
        assert record.recognised.pods == tuple(world.term._members.pods_of(record.id))


@pytest.mark.parametrize(
    ("size", "spec", "why"),
    [
        pytest.param(4, {}, "waits for 1 of 4 pods", id="a pod is missing"),
        pytest.param(3, {"affinity": BY_ZONE}, "pod p0 must not share its zone", id="it is refused"),
    ],
)
@pytest.mark.parametrize("hosts", [1, 2])
async def test_for_a_gang_without_a_job_that_can_get_none_now_no_nodes_are_looked_for(
    world, tmp_path, size, spec, why, hosts
):
    said = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": str(size)}
    async with leading(world, tmp_path):
        with entered(Cluster.eligibility) as count:
            for number in range(3):
                host = {"kubernetes.io/hostname": f"node-{number % hosts}"}
                world.add_pod(f"p{number}", labels={"app": "x"}, annotations=said, nodeSelector=host, **spec)
            await world.until(lambda: why in str([world.events, *map(world.pod, ("p0", "p1", "p2"))]))
            assert count() == 0


@pytest.mark.parametrize(
    ("settles_s", "lists"),
    [
        pytest.param(0.0, [], id="the watches are connected"),
        pytest.param(RARELY_S, ["node-1"], id="they have just come back"),
    ],
)
async def test_who_is_on_a_node_is_asked_only_when_the_watches_may_not_have_told(world, tmp_path, settles_s, lists):
    world.hasten(watch_settles_s=settles_s)
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.submissions)
        world.set_job(*world.jobs, "RUNNING", nodes="n1")
        await world.until(lambda: world.bindings)
        assert world.lists == lists


async def test_a_node_that_looks_full_is_asked_before_a_pod_has_to_wait(world, tmp_path):
    world.hasten(watch_settles_s=0.0)
    async with leading(world, tmp_path):
        await submit_and_fill_the_node(world)
        world.api.watches_lag = True
        world.remove("pods", "other", "stranger")
        world.set_job(*world.jobs, "RUNNING", nodes="n1")
        await world.until(lambda: world.bindings)
        assert world.lists == ["node-1"]


async def test_a_pod_is_not_bound_to_a_node_that_is_full(world, tmp_path):
    world.hasten(watch_settles_s=0.0)
    async with leading(world, tmp_path):
        await submit_and_fill_the_node(world)
        world.set_job(*world.jobs, "RUNNING", nodes="n1")
        await world.until(lambda: world.cancelled)
        assert (world.bindings, world.lists) == ([], ["node-1"])


async def test_pods_that_are_being_bound_take_their_room_before_any_watch_shows_them(world, tmp_path):
    world.hasten(watch_settles_s=0.0)
    async with leading(world, tmp_path):
        for name in ("a", "b", "c"):
            world.add_pod(name, cpu="2")
        await world.until(lambda: len(world.submissions) == 3)
        world.api.watches_lag = True
        for job in tuple(world.jobs):
            world.set_job(job, "RUNNING", nodes="n1")
        await world.until(lambda: len(world.bindings) == 2)
        await world.until(lambda: world.lists)
        assert len(world.bindings) == 2, "a node of four cpus has room for two"


async def test_a_job_that_was_read_for_its_prolog_is_not_read_again_for_the_poll(world, tmp_path):
    many = 12
    async with leading(world, tmp_path, poll_seconds=0.2) as server, hook_client(server) as call:
        for number in range(many):
            world.add_pod(f"web-{number}", cpu="10m")
        await world.until(lambda: sum(len(record.jobs) for record in world.term._ledger) == many)
        *_, record = world.term._ledger
        (last,) = record.jobs
        world.slurm.unreadable.update(world.jobs.keys() - {last})
        for job in world.jobs:
            world.set_job(job, "RUNNING", nodes="n1")
        await world.until(lambda: world.slurm.reading == 8)
        assert await call("prolog", last) == (200, {"done": True})
        world.slurm.unreadable.clear()
        world.note_change()
        await world.until(lambda: len(world.bindings) == many)
        assert world.slurm.asked.count(f"job {last}") == 1


async def test_a_short_pod_costs_three_requests_to_slurmrestd_and_a_poll(world, tmp_path):
    async with leading(world, tmp_path, poll_seconds=1.0) as server, hook_client(server) as call:
        await world.until(lambda: world.term._ledger.all_jobs_known)
        world.slurm.requests.clear()
        began_s = asyncio.get_running_loop().time()
        job = await bound_pod(world, call)
        world.pod_ends("Succeeded")
        await world.until(lambda: world.signals)
        world.set_job(job, "COMPLETED", nodes="n1")
        assert await call("epilog", job) == (200, {"done": True})
        await world.until(lambda: not len(world.term._ledger))
        asked, lasted_s = Counter(world.slurm.requests), asyncio.get_running_loop().time() - began_s
        own = {"POST job/submit": 1, f"GET job/{job}": 1, f"DELETE job/{job}": 1}
        assert {what: count for what, count in asked.items() if "job/" in what} == own
        assert asked["GET jobs/state/"] <= 1 + lasted_s, "one each second"
