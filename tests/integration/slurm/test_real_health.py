"""A drain for a node's health, and the lifting of somebody else's, on a real Slurm."""

from __future__ import annotations

import pytest

from sunkpy.core.mirror import DrainNode, LiftDrain, UndrainNode
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import Pod
from sunkpy.slurm import Slurm
from sunkpy.syncer.slurm_writer import SlurmWriter, WriteOutcome
from tests.integration.slurm.asking import happens, is_usable
from tests.integration.slurm.daemons import NODE, RealSlurm

pytestmark = pytest.mark.integration

SICK = "k8s: health: gpu: condition GpuFell=True (Xid79: GPU 3 fell off the bus)"
KILLED = "Kill task failed: job 7 step batch; sleep (pid 9) in rpc_wait_bit_killable<__wait_on_bit"
SLEEP = JobSpec(name="long", script="#!/bin/bash\nsleep 300\n", comment="", memory_mib_per_node=10)


async def consent() -> bool:
    return True


async def test_a_sick_node_ends_no_job_and_starts_none(real: RealSlurm, admin: Slurm, submitter: Slurm) -> None:
    writer = SlurmWriter(admin)
    runs = (await submitter.submit_job(SLEEP)).job_id

    async def is_running() -> bool:
        return (await submitter.job(runs)).is_running

    await happens(real, is_running)
    await writer.write(DrainNode(name=NODE, reason=SICK, is_announced=True), consent)
    node = await admin.node(NODE)
    assert (node.reason, node.is_drained_by_us, node.is_busy) == (SICK, True, True)
    waits = (await submitter.submit_job(SLEEP)).job_id
    assert await is_running()
    assert (await submitter.job(waits)).is_pending
    await submitter.cancel_job(runs)

    async def is_drained() -> bool:
        return (await admin.node(NODE)).is_drained

    await happens(real, is_drained)
    assert (await submitter.job(waits)).is_pending
    await writer.write(UndrainNode(name=NODE, pod=Pod()), consent)

    async def has_begun() -> bool:
        return (await submitter.job(waits)).is_running

    await happens(real, has_begun)
    await submitter.cancel_job(waits)
    await happens(real, lambda: is_usable(admin))


async def test_a_drain_of_others_goes_only_by_its_very_words(real: RealSlurm, admin: Slurm) -> None:
    writer = SlurmWriter(admin)
    await admin.drain_node(NODE, KILLED)
    for action in (
        DrainNode(name=NODE, reason=SICK, is_announced=True),
        UndrainNode(name=NODE, pod=Pod()),
        LiftDrain(name=NODE, reason=KILLED + "x", pod=Pod()),
        LiftDrain(name=NODE, reason="Kill task failed", pod=Pod()),
    ):
        assert await writer.write(action, consent) is WriteOutcome.CHANGED
        assert (await admin.node(NODE)).reason == KILLED
    assert await writer.write(LiftDrain(name=NODE, reason=KILLED, pod=Pod()), consent) is WriteOutcome.WRITTEN
    assert not (await admin.node(NODE)).is_drain
    await happens(real, lambda: is_usable(admin))
