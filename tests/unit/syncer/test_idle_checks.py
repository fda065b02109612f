"""Checks of idle machines: from Slurm's answers to jobs, and to slurmd pods. A leader remembers nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.health.idle_check import IdleCheck, Outcome, read_idle_check
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.nodeset.idle_checks import IdleRule
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube import paths
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.kube.trim import trim_slurmd
from sunkpy.syncer.idle_checks import IdleChecks
from sunkpy.syncer.settings import IdleCheckSettings
from tests.unit.syncer.test_growth import READ
from tests.unit.syncer.test_syncer import NAME, World
from tests.unit.syncer.test_syncer import world as world

SATURDAY = datetime(2026, 11, 28, 12, tzinfo=UTC)
SETTINGS = IdleCheckSettings(partition="sunkpy-verify", node_sets={"gpu": IdleRule(seconds=86400)})
COMMENT = f"sunkpy check of {NAME} "


class Syncer:
    """One that has just become leader."""

    def __init__(self, world: World, pods: Informer[Pod], nodesets: Informer[NodeSet]) -> None:
        self.world, self.pods, self.nodesets, self.now = world, pods, nodesets, SATURDAY
        self.hurried = 0

    def hurry(self) -> None:
        self.hurried += 1

    async def answers(self, *, unread: int = 0, **fields: Any) -> None:
        """Slurm's next answer, to a leader that remembers nothing."""
        checks = IdleChecks(
            self.world.kube,
            self.world.client,
            EventRecorder(self.world.kube, component="syncer", instance="a"),
            self.world.metrics,
            SETTINGS,
            pods=self.pods,
            nodesets=self.nodesets,
            read_soon=self.hurry,
            now=lambda: self.now,
        )
        rows = [
            JobRow(id=id, state=frozenset(job["job_state"]), partition="sunkpy-verify", comment=job["admin_comment"])
            for id, job in self.world.slurm.jobs.items()
        ]
        node = SlurmNode(name=NAME, **{"state": frozenset({"IDLE"}), "memory_mib": 9000, **fields})
        await checks.check(msgspec.structs.replace(READ, nodes={NAME: node}, jobs=rows, unread_jobs=unread))

    async def told(self, words: str) -> str:
        """What stands on the slurmd pod, once the syncer's watch shows it."""
        seen = lambda: self.pods.get("slurm", NAME).annotations.get(names.ANNOTATION_IDLE_CHECK, "")  # type: ignore[union-attr]  # noqa: E731
        await self.world.until(lambda: words in seen())
        return seen()

    def made(self, outcome: str) -> float:
        return self.world.metrics.idle_checks.labels("gpu", outcome)._value.get()


@pytest.fixture
async def syncer(world: World) -> AsyncIterator[Syncer]:
    world.api.put("nodesets", {"metadata": {"name": "gpu", "namespace": "slurm"}, "spec": {"cluster": "c1"}})
    world.add_pod(**{names.ANNOTATION_VERIFY_SECONDS: "600"})
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    made = {"creationTimestamp": "2026-11-26T12:00:00Z"}
    world.api.change("pods", "slurm", NAME, {"metadata": made, "status": ready})
    pods: Informer[Pod] = Informer(world.kube, paths.pods("slurm"), Pod, keep=trim_slurmd)
    nodesets: Informer[NodeSet] = Informer(world.kube, paths.nodesets("slurm"), NodeSet)
    tasks = {asyncio.create_task(each.run()) for each in (pods, nodesets)}
    await pods.synced.wait()
    await nodesets.synced.wait()
    yield Syncer(world, pods, nodesets)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_a_check_is_begun_once_and_its_end_stands_on_the_pod(syncer: Syncer, world: World) -> None:
    await syncer.answers(unread=1)
    assert not world.slurm.jobs, "one may be under way"
    await syncer.answers()
    ((id, job),) = world.slurm.jobs.items()
    assert (job["user_name"], job["comment"][: len(COMMENT)]) == ("root", COMMENT)
    world.slurm.set_job(id, "RUNNING")
    await syncer.answers()
    world.slurm.set_job(id, "COMPLETED")
    await syncer.answers()
    await syncer.told('"outcome":"passed"')
    await syncer.answers()
    assert (len(world.slurm.jobs), syncer.made("passed")) == (1, 1)
    syncer.now += timedelta(hours=24)
    await syncer.answers()
    assert len(world.slurm.jobs) == 2
    assert world.metrics.oldest_check.labels("gpu")._value.get() == SATURDAY.timestamp()


async def test_one_whose_answer_was_lost_is_not_begun_again(syncer: Syncer, world: World) -> None:
    world.slurm.lose_next_answer = True
    await syncer.answers()
    (id,) = world.slurm.jobs
    world.slurm.set_job(id, "RUNNING")
    await syncer.answers()
    assert len(world.slurm.jobs) == 1


async def test_one_that_does_not_start_is_taken_back_and_tried_again_in_an_hour(syncer: Syncer, world: World) -> None:
    await syncer.answers()
    await syncer.answers()
    (id,) = world.slurm.jobs
    assert world.slurm.ended_by == [(id, "root")]
    await syncer.answers()
    await syncer.told('"outcome":"not made"')
    syncer.now += timedelta(minutes=59)
    await syncer.answers()
    assert len(world.slurm.jobs) == 1
    syncer.now += timedelta(minutes=1)
    await syncer.answers()
    assert len(world.slurm.jobs) == 2


async def test_a_failure_is_told_while_its_job_holds_the_node_until_that_is_closed(
    syncer: Syncer, world: World
) -> None:
    await syncer.answers()
    (id,) = world.slurm.jobs
    world.slurm.set_job(id, "RUNNING", comment="failed: verify failed with 3\nlink mlx5_3 is down")
    await syncer.answers(state=frozenset({"ALLOCATED"}))
    assert '"text":"verify failed with 3","log":"link mlx5_3 is down"' in await syncer.told("failed")
    assert not world.slurm.cancelled
    world.annotate(health_drain="Verification: verify failed with 3")
    await world.until(lambda: names.ANNOTATION_HEALTH_DRAIN in syncer.pods.get("slurm", NAME).annotations)
    await syncer.answers(state=frozenset({"ALLOCATED", "DRAIN"}), reason="k8s: health")
    await syncer.told('"isTold":true')
    assert (world.slurm.cancelled, syncer.made("failed")) == ([id], 1)


async def test_slurm_is_read_soon_again_while_one_runs(syncer: Syncer, world: World) -> None:
    """One that fails holds its node for two minutes only."""
    for state, hurried in (("RUNNING", 1), ("RUNNING", 2), ("COMPLETED", 3)):
        await syncer.answers()
        assert syncer.hurried == hurried
        world.slurm.set_job(next(iter(world.slurm.jobs)), state)
    await syncer.answers()
    await syncer.told("passed")
    await syncer.answers()
    assert syncer.hurried == 4, "none runs"


async def test_a_failure_whose_node_is_still_open_outlasts_a_check_that_was_not_made(
    syncer: Syncer, world: World
) -> None:
    failed = IdleCheck(job=1, outcome=Outcome.FAILED, at="2026-11-27T11:00:00Z", text="link is down").encode()
    world.api.change("pods", "slurm", NAME, {"metadata": {"annotations": {names.ANNOTATION_IDLE_CHECK: failed}}})
    world.api.change("pods", "slurm", NAME, {"metadata": {"annotations": {names.ANNOTATION_VERIFY_SECONDS: "600"}}})
    await syncer.told("link is down")
    await syncer.answers()
    (id,) = world.slurm.jobs
    world.slurm.set_job(id, "PREEMPTED")
    await syncer.answers()
    assert '"outcome":"failed"' in (told := await syncer.told(f'"job":{id}'))
    assert "link is down" in told
    assert (syncer.made("failed"), syncer.made("not made")) == (0, 1)


async def test_after_several_failures_it_halts_and_a_metric_tells(syncer: Syncer, world: World) -> None:
    failed = IdleCheck(job=1, outcome=Outcome.FAILED, at="2026-11-28T11:00:00Z").encode()
    others = [f"other-{number}" for number in range(3)]
    for name in others:
        world.add_pod(name, **{names.ANNOTATION_IDLE_CHECK: failed})
    await world.until(lambda: all(syncer.pods.get("slurm", name) for name in others))
    await syncer.answers()
    assert (world.slurm.jobs, world.metrics.idle_checks_halted.labels("gpu")._value.get()) == ({}, 1)
    for name in others[1:]:
        world.api.change("pods", "slurm", name, {"metadata": {"annotations": {names.ANNOTATION_IDLE_CHECK: ""}}})
    await world.until(lambda: all(not read_idle_check(syncer.pods.get("slurm", name)) for name in others[1:]))
    await syncer.answers()
    assert (len(world.slurm.jobs), world.metrics.idle_checks_halted.labels("gpu")._value.get()) == (1, 0)


async def test_what_slurm_refuses_is_not_asked_again_at_once(syncer: Syncer, world: World) -> None:
    world.slurm.reject_submit = 2000
    await syncer.answers()
    assert "not made" in await syncer.told("job")
    world.slurm.reject_submit = 0
    await syncer.answers()
    assert not world.slurm.jobs


async def test_checks_keep_the_windows_of_their_nodeset(syncer: Syncer, world: World) -> None:
    windows = {"rollingUpdate": {"windows": [{"days": ["Sun"], "start": "00:00", "hours": 6}]}}
    world.api.change("nodesets", "slurm", "gpu", {"spec": {"updateStrategy": windows}})
    await world.until(lambda: syncer.nodesets.get("slurm", "gpu").spec.update_strategy.rolling_update.windows != ())
    await syncer.answers()
    assert not world.slurm.jobs
    syncer.now += timedelta(hours=13)
    await syncer.answers()
    assert len(world.slurm.jobs) == 1
