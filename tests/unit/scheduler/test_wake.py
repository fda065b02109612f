"""When a gang is recognised again after a change."""

import asyncio

import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Condition, Meta, Pod, PodStatus
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.pods.wake import Wake

BAND = GangId(namespace="default", name="band", uid="b")


def pod(number, **status):
    meta = Meta(namespace="default", name=f"p{number}", uid=f"u{number}")
    return Pod(metadata=meta, status=PodStatus(phase="Pending", **status))


@pytest.fixture
def ledger():
    return Ledger()


async def after_the_last(ledger):
    """What was enqueued so far is done."""
    ledger.changed.done(await ledger.changed.get())


async def test_a_gang_is_recognised_at_once_and_each_change_of_a_large_one_only_with_those_that_follow(ledger):
    wake = Wake(ledger)
    wake.pod_changed(BAND, None, pod(0))
    assert len(ledger.changed) == 1
    for number in range(1, 400):
        wake.pod_changed(BAND, None, pod(number))
    await after_the_last(ledger)
    for number in range(400):
        wake.pod_gone(BAND, pod(number))
        assert len(ledger.changed) == 0
    async with asyncio.timeout(5):
        await after_the_last(ledger)
    assert len(ledger.changed) == 0
    assert ledger.get(BAND).is_news


async def test_what_no_decision_reads_is_recognised_later_and_needs_no_pass(ledger):
    wake = Wake(ledger)
    wake.pod_changed(BAND, None, pod(0))
    await after_the_last(ledger)
    record = ledger.get(BAND)
    record.is_news = record.is_doubted = False
    wake.pod_changed(BAND, pod(0), pod(0, conditions=(Condition(type="Ready", status="False"),)))
    assert (len(ledger.changed), record.is_doubted, record.is_news) == (0, True, False)
    async with asyncio.timeout(5):
        await after_the_last(ledger)
