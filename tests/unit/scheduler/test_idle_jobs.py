"""Jobs that have their nodes and no pod on them: how long they keep them, and how often the scheduler looks at them."""

import asyncio
import contextlib

import pytest

from sunkpy.core.gang.decide.ending import IDLE_PATIENCE_S
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.loop import GangLoop
from tests.doubles.apiserver import KUBELET
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading

PAIR = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": "2"}
GATES = [{"name": "example.com/quota"}]
GATED = (
    "scheduling gate example.com/quota holds pod b: whoever set the gate has to remove it; if nobody does, delete the "
    "pod"
)
DELETED = (
    f"1 of 2 pods (pod 1 of 2); finalizer {KUBELET} keeps pod b, which is deleted: whoever set the finalizer has to "
    "remove it; if nobody does, remove it yourself"
)
HELD = [({"schedulingGates": GATES}, f": {GATED}"), ({"deleted": True}, f" for {DELETED}")]


@pytest.fixture
def world():
    world = World()
    world.add_node(1, cpu="1")
    world.add_node(2, cpu="1")
    return world


@pytest.fixture
def passes(monkeypatch):
    """After how many seconds each pass wants the next one."""
    found, reconcile = [], GangLoop.reconcile

    async def followed(loop, id):
        found.append(await reconcile(loop, id))
        return found[-1]

    monkeypatch.setattr(GangLoop, "reconcile", followed)
    return found


@contextlib.asynccontextmanager
async def queued(world, tmp_path):
    """Pods a and b, whose job waits in the queue."""
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        for name in ("a", "b"):
            world.add_pod(name, annotations=PAIR)
        await world.until(lambda: world.submissions)
        (job,) = world.jobs
        yield job, call


def record(world):
    (found,) = world.term._ledger
    return found


def age(record):
    """The job has had its nodes for two minutes more, if it has all of them."""
    if record.idle_since is not None:
        record.idle_since -= IDLE_PATIENCE_S


async def another_pass(world, passes):
    before = len(passes)
    world.api.change("pods", "default", "a", {"metadata": {"annotations": {"passes": str(before)}}})
    await world.until(lambda: len(passes) > before)


def replace_b(world, **held):
    world.remove("pods", "default", "b")
    world.add_pod("b", annotations=PAIR, **held)


async def knows_held(world):
    """The scheduler knows of b that it is held."""
    is_held = {"a": False, "b": True}
    await world.until(
        lambda: (
            is_held == {p.name: p.is_deleting or bool(p.spec.scheduling_gates) for p in record(world).recognised.pods}
        )
    )


def condition(world, name):
    (found,) = world.pod(name)["status"].get("conditions") or [{"message": ""}]
    return found["message"]


async def is_given_back(world, job, why):
    """The job is cancelled, and an Event says why."""
    await world.until(lambda: job in world.cancelled)
    note = f"for 120 s Slurm job {job} had its nodes and no pod on them, so it is cancelled: {why}"
    await world.until(lambda: note in world.notes("FailedScheduling"))
    assert world.signals == []


@pytest.mark.parametrize(("held", "why"), HELD)
async def test_a_job_that_started_for_a_pod_that_is_held_says_so_and_gives_its_nodes_back(
    world, tmp_path, passes, held, why
):
    async with queued(world, tmp_path) as (job, _):
        replace_b(world, **held)
        await knows_held(world)
        world.set_job(job, "RUNNING", nodes="n[1-2]")
        await world.until(lambda: condition(world, "a") == f"Slurm job {job} runs and waits{why}")
        age(record(world))
        await another_pass(world, passes)
        await is_given_back(world, job, why.removeprefix(": ").removeprefix(" for "))
        assert world.bindings == []
        world.set_job(job, "CANCELLED")
        replace_b(world)
        await world.until(lambda: len(world.submissions) == 2)


@pytest.mark.parametrize(("held", "why"), HELD)
async def test_so_does_a_job_of_which_one_pod_has_ended_and_the_other_one_is_held(world, tmp_path, passes, held, why):
    async with queued(world, tmp_path) as (job, _):
        world.set_job(job, "RUNNING", nodes="n[1-2]")
        await world.until(lambda: len(world.bindings) == 2)
        world.pod_runs("a")
        world.pod_ends("Failed", "b")
        replace_b(world, **held)
        await knows_held(world)
        await another_pass(world, passes)
        assert record(world).idle_since is None  # one of its pods runs
        world.pod_ends("Succeeded", "a")
        await world.until(lambda: record(world).idle_since is not None)
        age(record(world))
        await another_pass(world, passes)
        await is_given_back(world, job, why.removeprefix(": ").removeprefix(" for "))


async def test_a_prolog_that_waits_at_the_gate_takes_nothing_from_the_time_for_pods(world, tmp_path, passes):
    async with queued(world, tmp_path) as (job, call):
        world.set_job(job, "RUNNING", "CONFIGURING", nodes="n[1-2]")
        prologs = [asyncio.ensure_future(call("prolog", job, node=1))]
        await world.until(lambda: job in record(world).jobs and record(world).jobs[job].prologs)
        await another_pass(world, passes)
        age(record(world))
        await another_pass(world, passes)
        assert passes[-1] is None  # only a change leads to the next pass
        # A pod is away for a moment when the last Prolog has come.
        world.remove("pods", "default", "b")
        await world.until(lambda: len(record(world).recognised.pods) == 1)
        prologs.append(asyncio.ensure_future(call("prolog", job, node=2)))
        missing = f"Slurm job {job} runs and waits for 1 of 2 pods (pod 1 of 2)"
        await world.until(lambda: condition(world, "a") == missing)
        world.add_pod("b", annotations=PAIR)
        assert await asyncio.gather(*prologs) == [(200, {"done": True})] * 2
        await world.until(lambda: len(world.bindings) == 2)  # a Prolog is answered when its binding was sent
        assert world.cancelled == []


async def test_a_job_whose_time_is_over_is_not_looked_at_all_the_time(world, tmp_path, passes, monkeypatch):
    """Its time is over when the pass has decided, and before the pass says when the next one is due."""
    snapshot = Collector.snapshot

    def slow(collector, record):
        found = snapshot(collector, record)
        age(record)
        return found

    async with queued(world, tmp_path) as (job, _):
        replace_b(world, schedulingGates=GATES)
        await knows_held(world)
        world.set_job(job, "RUNNING", nodes="n[1-2]")
        await world.until(lambda: record(world).idle_since is not None)
        monkeypatch.setattr(Collector, "snapshot", slow)
        await another_pass(world, passes)
        await world.until(lambda: passes[-1] == world.times.again_s)  # not of one that had begun before
