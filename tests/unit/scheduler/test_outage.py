"""After an outage of Slurm, and while a replica takes over."""

from __future__ import annotations

import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.runtime.election import Identity
from sunkpy.scheduler.hooks.server import other_leader
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.pods.wake import Wake

ME, OTHER = Identity(name="a", address="10.0.0.1"), Identity(name="b", address="10.0.0.2")


def test_a_submit_that_was_not_answered_is_tried_at_once_when_slurm_answers_again():
    ledger = Ledger()
    silent, rejected = (ledger.ensure(GangId(namespace="default", name=uid, uid=uid)) for uid in ("silent", "rejected"))
    silent.uncertain_since = 5.0
    for record in (silent, rejected):
        for _ in range(6):
            record.back_off("no", now=10.0)
    Wake(ledger).slurm_answers_again()
    assert len(ledger.queue) == 1
    assert silent.retry_at == 0.0
    assert rejected.retry_at > 60.0


def test_once_bound_a_gang_waits_no_longer_for_what_was_refused_before():
    record = Ledger().ensure(GangId(namespace="default", name="web", uid="u"))
    delays_s = [record.back_off("no", now=0.0) for _ in range(3)]
    record.now_under(7)
    assert (delays_s, record.back_off("no", now=0.0)) == ([2.0, 4.0, 8.0], 2.0)


@pytest.mark.parametrize(("leader", "expected"), [(None, None), (ME, None), (OTHER, OTHER)])
def test_callers_are_never_sent_to_the_replica_that_they_ask(leader, expected):
    assert other_leader(leader, own=ME) == expected
