"""When a gang is recognised again after a change."""

import asyncio

import msgspec
import pytest

from sunkpy.core.gang.gang import Gang, Member, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Condition, Meta, Pod, PodStatus
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.pods.wake import Wake
from sunkpy.scheduler.record import Recognised, SentBinding

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


def shown(sent, **meta):
    """A pod as the watch shows it once it is bound, with some of its metadata changed."""
    bound = msgspec.structs.replace(sent.metadata, resource_version="2", generation=2)
    status = msgspec.structs.replace(sent.status, conditions=(Condition(type="PodScheduled", status="True"),))
    return msgspec.structs.replace(sent, metadata=msgspec.structs.replace(bound, **meta), status=status)


def binding_of(ledger, *pods):
    """A gang of these pods, of which the first is being bound; how it will be then."""
    record = ledger.ensure(BAND)
    role = Role(name="pod", seats=len(pods), first=1, members=tuple(Member(pod=each) for each in pods))
    for each in pods:
        record.member(each)
    record.recognised, record.is_doubted = Recognised(gang=Gang(id=BAND, roles=(role,)), pods=pods), False
    sent = SentBinding.of(pods[0], node="node-1")
    record.assume([sent])
    return record, sent.pod


@pytest.mark.parametrize("labels", [{}, {"topology.kubernetes.io/zone": "east"}], ids=["plain", "with its zone"])
def test_a_pod_that_is_shown_as_its_binding_was_sent_stays_in_the_gang_that_is_known(ledger, labels):
    record, sent = binding_of(ledger, pod(0))
    now = shown(sent, labels=labels)
    Wake(ledger).pod_changed(BAND, pod(0), now)
    assert (len(ledger.changed), record.is_doubted, record.is_news) == (0, False, False)
    assert record.recognised.gang.members == record.recognised.pods == (now,)


def test_a_pod_of_which_only_a_condition_has_changed_takes_its_place_in_the_gang_that_is_known(ledger):
    record, _ = binding_of(ledger, pod(0), pod(1))
    now = pod(1, conditions=(Condition(type="PodScheduled", status="False"),))
    Wake(ledger).pod_changed(BAND, pod(1), now)
    assert (len(ledger.changed), record.is_doubted, record.is_news) == (0, False, False)
    assert record.recognised.gang.members[1] == record.recognised.pods[1] == now


def test_a_pod_that_is_being_bound_stays_so_when_the_watch_is_late(ledger):
    record, sent = binding_of(ledger, pod(0))
    late = pod(0, conditions=(Condition(type="PodScheduled", status="False"),))
    Wake(ledger).pod_changed(BAND, pod(0), late)
    assert record.recognised.gang.members == record.recognised.pods == (sent,)


def claims(record):
    record.recognised = msgspec.structs.replace(record.recognised, claiming=record.recognised.gang)


def has_changed(record):
    record.is_doubted = True


@pytest.mark.parametrize(
    ("pods", "meta", "but"),
    [
        pytest.param([pod(0), pod(1)], {}, None, id="another pod waits"),
        pytest.param([pod(0)], {"labels": {"app": "new"}}, None, id="somebody has changed it"),
        pytest.param([pod(0)], {"deletion_timestamp": "2026-11-21T00:00:00Z"}, None, id="it is going"),
        pytest.param([pod(0)], {}, claims, id="it claims devices"),
        pytest.param([pod(0)], {}, has_changed, id="the gang has changed"),
    ],
)
def test_a_pod_that_is_shown_with_more_than_its_binding_is_looked_at(ledger, pods, meta, but):
    record, sent = binding_of(ledger, *pods)
    if but is not None:
        but(record)
    Wake(ledger).pod_changed(BAND, pods[0], shown(sent, **meta))
    assert (len(ledger.changed), record.is_news) == (1, True)
