"""What takes a gang's nodes on a real Slurm, what Slurm says of it then, and that the gang goes or stays as one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from sunkpy.core.gang.actions import Bind, Cancel, Evict, GangAction, MakeSolo, NoteJob, Report, Submit, WaitCause, Warn
from sunkpy.core.gang.job.ends import EndCause, describe
from sunkpy.core.gang.phases import GangState
from sunkpy.core.model.capacity import Capacity
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId
from sunkpy.core.placement.needs import MINIMUM_MEMORY_MIB
from sunkpy.scheduler.jobs.end_causes import EndCauses
from sunkpy.slurm import Slurm
from tests import process_tree
from tests.doubles.apiserver import Body
from tests.integration.slurm.asking import happens
from tests.integration.slurm.daemons import RealSlurm
from tests.integration.slurm.gangs import CPUS, NODES, Ring
from tests.integration.slurm.whole import job_of, leading_on
from tests.unit.scheduler.world import World

pytestmark = pytest.mark.integration

NOT_DOWN = "slurm_update error: Invalid node state specified"
SUSPENDS = {"on_preemption": "suspend"}
SUSPEND = {"sunkpy.dev/on-preemption": "suspend"}


def scontrol(pool: RealSlurm, *words: object, user: str = "slurm") -> str:
    """The output of scontrol, empty if it did what was asked."""
    return pool.run_as(user, "scontrol", *map(str, words))[1].strip()


async def running(slurm: Slurm, name: str, *, nodes: Sequence[str] = NODES[:3], **how: str) -> Ring:
    """A gang whose pods are all bound."""
    ring = Ring(slurm, name, nodes=nodes, **how)
    await ring.until(Bind)
    assert len(ring.placed) == len(ring.pods)
    return ring


def cause_of(slurm: Slurm, ring: Ring) -> EndCause:
    """Why its pods are evicted, as their Event says."""
    return EndCauses(slurm).of(ring.job, known=ring.record.jobs[ring.job].state)


async def ended(pool: RealSlurm, slurm: Slurm, job_id: JobId, state: str) -> None:
    """The job has ended so, on every one of its nodes."""

    async def is_so() -> bool:
        return await slurm.jobs_state([job_id]) == {job_id: frozenset({state})}

    await happens(pool, is_so)


async def runs(slurm: Slurm, job_id: JobId) -> bool:
    return (await slurm.jobs_state([job_id])).get(job_id) == {"RUNNING"}


def epilogs(pool: RealSlurm, job_id: JobId) -> list[str]:
    """The nodes on which its epilog has run."""
    log = pool.root / "var/log/epilogs"
    told = log.read_text().splitlines() if log.exists() else []
    return sorted(node for job, _, node in (line.partition(" ") for line in told) if job == str(job_id))


@contextlib.contextmanager
def held_epilogs(pool: RealSlurm) -> Iterator[None]:
    """Epilogs wait, as they do for pods that end: nobody has their nodes yet."""
    hold = pool.root / "var/log/hold-epilogs"
    hold.touch()
    try:
        yield
    finally:
        hold.unlink()


def kinds(actions: list[GangAction]) -> list[type[GangAction]]:
    return [type(action) for action in actions]


async def test_a_gang_starts_whole_in_the_order_of_its_job(keeper: Slurm, own: Slurm) -> None:
    ring = Ring(own, "starts")
    (bind,) = await ring.until(Bind)
    assert isinstance(bind, Bind)
    job = ring.record.jobs[ring.job]
    assert (sorted(job.nodes), job.slurm.tasks) == (["n1", "n2", "n3"], 3)
    # Slurm's order is here that in which the nodes came.
    seats = [(each.pod.name, each.note.slurm_node, each.note.seat) for each in bind.bindings]
    assert seats == [(f"starts-{rank}", node, f"pod/{rank}") for rank, (node, _) in enumerate(job.slurm.layout)]
    assert job.slurm.capacity == dict.fromkeys(job.nodes, Capacity(cpus=CPUS, memory_mib=MINIMUM_MEMORY_MIB, gres={}))
    assert await ring.step() == []


async def test_a_job_that_wants_one_of_its_nodes_preempts_all_of_it(pool: RealSlurm, keeper: Slurm, own: Slurm) -> None:
    ring = await running(own, "preempted", **SUSPENDS)
    later = EndCauses(keeper)
    later.saw(await keeper.jobs_state())
    with held_epilogs(pool):
        above = await wanted(keeper, "n2")
        actions = await ring.until(Evict)
        assert kinds(actions) == [Evict] * 3
        assert all(isinstance(each, Evict) and each.suspension is not None for each in actions)
        cause = cause_of(keeper, ring)
        assert (cause.is_preemption, cause.message) == (True, f"Slurm job {ring.job} was preempted")
        causes = await EndCauses(keeper).by_whom({ring.job: "n2"}, await keeper.jobs_state())
        assert describe(causes[ring.job]) == f"Slurm job {above} (user slurm, partition high)"
    await ended(pool, own, ring.job, "PREEMPTED")
    assert epilogs(pool, ring.job) == ["n1", "n2", "n3"]
    await happens(pool, lambda: runs(keeper, above))
    await keeper.cancel_job(above)
    await ended(pool, keeper, above, "CANCELLED")
    later.of(ring.job, known=frozenset({"PREEMPTED"}))
    later.saw(states := await keeper.jobs_state())
    assert (await later.by_whom({ring.job: "n2"}, states))[ring.job].id == above, "it is over, and nobody saw it wait"
    await over(ring)


async def wanted(slurm: Slurm, *nodes: str, excluded_nodes: tuple[str, ...] = ()) -> JobId:
    """A job that preempts whoever has this node, or any that it does not exclude."""
    job = JobSpec(
        name="above", script="#!/bin/bash\nsleep 100\n", comment="", partition="high", cpus_per_task=CPUS,
        required_nodes=nodes, excluded_nodes=excluded_nodes, memory_mib_per_node=10,
    )  # fmt: skip
    return (await slurm.submit_job(job)).job_id


async def test_a_pod_beyond_the_places_goes_before_the_gang(pool: RealSlurm, keeper: Slurm, own: Slurm) -> None:
    """Slurm preempts the job with the fewest nodes, although the gang came later."""
    extra = await running(own, "extra", nodes=("n4",))
    ring = await running(own, "few")
    await wanted(keeper, excluded_nodes=("n5",))
    await extra.until(Evict)
    await ended(pool, own, extra.job, "PREEMPTED")
    assert await ring.step() == []
    assert ring.states[-1] == {"RUNNING"}


async def over(ring: Ring) -> None:
    """Nothing is left to be done when its pods are gone."""
    ring.take_pods_away()
    assert await ring.step() == []
    assert ring.snapshot().state is GangState.DONE


Takes = Callable[[RealSlurm, Ring], str]


async def script_runs(pool: RealSlurm, job_id: JobId) -> bool:
    """Whether the node has launched the script of a job.

    A slurmd of 24.11 that had to suspend a job before that was silent for 40 s and more.
    """
    return any(process_tree.below(stepd) for stepd in pool.running(rf"slurmstepd: \[{job_id}\.batch\]"))


def suspend(pool: RealSlurm, ring: Ring) -> str:
    return scontrol(pool, "suspend", ring.job)


def cancel(pool: RealSlurm, ring: Ring) -> str:
    return pool.run_as("k8s", "scancel", str(ring.job))[1]


def requeue(pool: RealSlurm, ring: Ring) -> str:
    return scontrol(pool, "update", f"jobid={ring.job}", "requeue=1") or scontrol(pool, "requeue", ring.job)


def hold(pool: RealSlurm, ring: Ring) -> str:
    return scontrol(pool, "update", f"jobid={ring.job}", "requeue=1") or scontrol(pool, "requeuehold", ring.job)


@pytest.mark.parametrize("restarts", ["Never", "Always"])
@pytest.mark.parametrize(
    ("take", "state", "told"),
    [
        (cancel, "CANCELLED", "was cancelled"),
        (suspend, "SUSPENDED", "was suspended, which pods cannot be"),
        (requeue, "PENDING", "was queued again"),
        (hold, "PENDING", "was queued again"),
    ],
)
async def test_what_an_administrator_does_to_the_job_takes_all_its_pods_and_ends_it(
    pool: RealSlurm, keeper: Slurm, own: Slurm, take: Takes, state: str, told: str, restarts: str
) -> None:
    ring = await running(own, f"{take.__name__}-{restarts.lower()}", restarts=restarts, **SUSPENDS)
    if take is suspend and restarts == "Never":
        await happens(pool, lambda: script_runs(pool, ring.job))
    said = await asyncio.to_thread(take, pool, ring)
    if restarts == "Always" and state == "PENDING":
        # An allocation has no script that could be run again.
        assert said
        assert await ring.step() == []
        return
    assert said == ""
    actions = await ring.until(Evict)
    assert state in ring.states[-1]
    assert kinds(actions) == [Evict] * 3 + [Cancel] * (state != "CANCELLED")
    cause = cause_of(keeper, ring)
    assert (cause.is_preemption, cause.message) == (False, f"Slurm job {ring.job} {told}")
    await ended(pool, own, ring.job, "CANCELLED")
    assert set(epilogs(pool, ring.job)) == {"n1", "n2", "n3"}
    await ring.step()
    await over(ring)
    assert len(ring.record.jobs) == 1


async def test_slurm_counts_the_age_of_a_job_that_it_queues_again_from_then(
    pool: RealSlurm, keeper: Slurm, own: Slurm
) -> None:
    """So a pod that is made again, and is another job, stands no worse in the queue than a job of sbatch."""
    ring = await running(own, "aged")
    before = times(pool, ring)
    await asyncio.sleep(1.1)  # Slurm says in whole seconds when a job was submitted
    assert requeue(pool, ring) == ""

    async def is_queued() -> bool:
        return (await keeper.job(ring.job)).state == {"PENDING"}

    await happens(pool, is_queued)
    after = times(pool, ring)
    assert all(before[time] != after[time] for time in ("SubmitTime", "EligibleTime", "AccrueTime"))


async def test_of_pods_that_wait_for_the_same_node_the_older_goes_first(
    pool: RealSlurm, keeper: Slurm, own: Slurm
) -> None:
    """One that is made again is the younger of two."""
    first = await running(own, "first", nodes=("n1",))
    older, again = Ring(own, "older", nodes=("n1",)), Ring(own, "again", nodes=("n1",))
    for ring in (older, again):
        await ring.until(Report)
    assert cancel(pool, first) == ""
    await older.until(Bind)
    assert kinds(await again.step()) == [Report]


def times(pool: RealSlurm, ring: Ring) -> dict[str, str]:
    """The times of its job as scontrol shows them."""
    words = scontrol(pool, "show", "job", ring.job).split()
    return {name: value for name, _, value in (word.partition("=") for word in words) if name.endswith("Time")}


async def test_a_placeholder_may_not_be_queued_again_unless_somebody_insists(
    pool: RealSlurm, keeper: Slurm, own: Slurm
) -> None:
    ring = await running(own, "stays")
    said = f"Requested operation is presently disabled for job {ring.job}"
    assert scontrol(pool, "requeue", ring.job) == said
    assert await ring.step() == []
    assert ring.states[-1] == {"RUNNING"}


async def test_a_gang_that_was_suspended_and_resumed_unseen_runs_on(pool: RealSlurm, keeper: Slurm, own: Slurm) -> None:
    ring = await running(own, "resumed")
    await happens(pool, lambda: script_runs(pool, ring.job))
    assert scontrol(pool, "suspend", ring.job) == ""
    assert scontrol(pool, "resume", ring.job) == ""
    assert await ring.step() == []
    assert ring.states[-1] == {"RUNNING"}


async def test_of_a_running_job_that_is_made_smaller_the_others_stay_and_one_gets_a_job_of_its_own(
    pool: RealSlurm, keeper: Slurm, own: Slurm
) -> None:
    ring = await running(own, "smaller")
    assert scontrol(pool, "update", f"jobid={ring.job}", "numnodes=2") == ""

    async def has_called() -> bool:
        return bool(epilogs(pool, ring.job))

    await happens(pool, has_called)
    assert await ring.epilog_called()
    (gone,) = set(NODES[:3]) - set(ring.record.jobs[ring.job].nodes)
    assert epilogs(pool, ring.job) == [gone]
    (apart,) = await ring.look()
    assert isinstance(apart, MakeSolo)
    assert ring.placed[apart.pod.uid] == gone


async def test_the_time_limit_takes_all_of_it(pool: RealSlurm, keeper: Slurm, own: Slurm) -> None:
    ring = await running(own, "limited", time_limit="1")
    actions = await ring.until(Evict, timeout_s=150)
    assert kinds(actions) == [Evict] * 3
    cause = cause_of(keeper, ring)
    assert (cause.reason, cause.message) == ("SlurmJobTimeout", f"Slurm job {ring.job} reached its time limit")
    await ended(pool, own, ring.job, "TIMEOUT")
    assert epilogs(pool, ring.job) == ["n1", "n2", "n3"]


@pytest.mark.parametrize("how", ["set down", "silent"])
async def test_when_one_node_fails_the_gang_stays_and_one_job_covers_all_of_it(
    pool: RealSlurm, keeper: Slurm, own: Slurm, how: str
) -> None:
    ring = await running(own, f"fails-{how.replace(' ', '-')}")
    first = ring.job
    if how == "silent":
        pool.send("STOP", "slurmd-n2")
    else:
        assert scontrol(pool, "update", "nodename=n2", "state=down", "reason=test") == ""
    warn, submit = await ring.until(Submit, timeout_s=90)
    assert "NODE_FAIL" in ring.states[-1]
    assert isinstance(warn, Warn)
    assert isinstance(submit, Submit)
    assert submit.request.required_nodes == NODES[:3]
    assert warn.note == (
        "Slurm has lost the job of this pod; the pod keeps running and a new job is submitted for n1, n2, n3"
    )
    assert await ring.step() == []
    pool.send("CONT", "slurmd-n2")
    if how == "set down":
        # A slurmd that has registered meanwhile has ended it already (ReturnToService=2).
        assert scontrol(pool, "update", "nodename=n2", "state=resume") in ("", NOT_DOWN)
    actions = await ring.until(NoteJob, timeout_s=90)
    assert kinds(actions) == [NoteJob] * 3
    assert (ring.job > first, ring.record.bound_to) == (True, ring.job)
    assert await ring.step() == []


@pytest.mark.parametrize(
    ("user", "reason", "told"),
    [
        ("slurm", "JobHeldAdmin", "an administrator holds the job"),
        ("k8s", "JobHeldUser", "the job is held until somebody releases it"),
    ],
)
async def test_every_pod_of_a_gang_that_is_held_is_told_so_and_starts_when_it_is_released(
    pool: RealSlurm, keeper: Slurm, own: Slurm, user: str, reason: str, told: str
) -> None:
    above = await wanted(keeper, "n2")
    ring = Ring(own, f"held-{user}")
    await ring.until(Report)
    assert scontrol(pool, "hold", ring.job, user=user) == ""
    reports = await told_as(ring, WaitCause.NEVER_STARTS)
    assert [report.message for report in reports] == [
        f"Slurm job {ring.job} waits: {reason} in partition low ({told})"
    ] * 3
    assert scontrol(pool, "release", ring.job) == ""
    await keeper.cancel_job(above)
    await ring.until(Bind)


async def told_as(ring: Ring, cause: WaitCause) -> list[Report]:
    """The reports on the pods, if they wait for this."""
    async with asyncio.timeout(30):
        while True:
            reports = [action for action in await ring.step() if isinstance(action, Report)]
            if any(report.cause is cause for report in reports):
                return reports
            await asyncio.sleep(0.2)


async def test_an_owner_that_wants_it_is_suspended_by_a_preemption_and_resumed_when_its_pods_are_gone(
    pool: RealSlurm, keeper: Slurm, world: World, tmp_path: Path
) -> None:
    async with leading_on(world, pool, tmp_path, suspend_owners=True):
        owner, first = await started_below_an_owner(world)
        above = await wanted(keeper, "n2")
        await world.until(lambda: owner()["spec"]["suspend"])
        (told,) = await world.until(lambda: world.notes("PreemptionByScheduler"))
        # No epilog waits here, so the job that took the place may have begun before it is looked for.
        assert told.startswith(f"Slurm job {first} was preempted by Slurm job {above} (user slurm, partition high)")
        assert told.endswith("; Job train is suspended, and resumed when its pods are gone")
        assert world.deleted == []
        # Its controller takes them back: deleted by it, not failed.
        world.pod_is_gone("train-0")
        await world.until(lambda: not owner()["spec"]["suspend"])
        assert "sunkpy.dev/suspended-by" not in owner()["metadata"]["annotations"]
        world.add_pod("train-1", cpu=str(CPUS), annotations=SUSPEND, owner=owner(), nodeSelector={"host": "2"})
        again = await job_of(world, "train-1")
        await keeper.cancel_job(above)
        await world.until(lambda: world.bindings[-1] == ("train-1", "node-2"))
        assert again > above


@pytest.mark.parametrize("word", ["suspend", "requeue", "cancel"])
async def test_an_owner_is_not_suspended_for_what_somebody_did_to_its_job(
    pool: RealSlurm, keeper: Slurm, world: World, tmp_path: Path, word: str
) -> None:
    async with leading_on(world, pool, tmp_path, suspend_owners=True):
        owner, job = await started_below_an_owner(world)
        scontrol(pool, "update", f"jobid={job}", "requeue=1")
        assert pool.run_as("slurm", *(["scancel"] if word == "cancel" else ["scontrol", word]), str(job)) == (0, "")
        await world.until(lambda: world.deleted == ["train-0"])
        assert not owner()["spec"]["suspend"]
        await ended(pool, keeper, job, "CANCELLED")


async def started_below_an_owner(world: World) -> tuple[Callable[[], Body], JobId]:
    """A pod of a Job that wants to be suspended, on node-2; gives the Job as it is, and the pod's Slurm job."""
    world.api.define("batch/v1", "Job", "jobs")
    world.api.change("nodes", "", "node-2", {"metadata": {"labels": {"host": "2"}}})
    meta = {"name": "train", "namespace": "default", "annotations": {}}
    made = world.put(
        "jobs",
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"suspend": False}, "status": {}},
    )
    world.add_pod("train-0", cpu=str(CPUS), annotations=SUSPEND, owner=made, nodeSelector={"host": "2"})
    await world.until(lambda: world.bindings == [("train-0", "node-2")])
    world.pod_runs("train-0")
    return lambda: world.api.objects["jobs", "default", "train"], await job_of(world, "train-0")
