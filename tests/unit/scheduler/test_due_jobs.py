"""What is kept of the jobs that are due, against a walk over all."""

from __future__ import annotations

import asyncio
from collections import Counter

import hypothesis
import hypothesis.strategies as st
import msgspec
import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.states import SlurmJob
from sunkpy.scheduler.jobs.due import DueJobs, details_due_at
from sunkpy.scheduler.ledger import Ledger
from tests.unit.core.gang.jobs import make_job

RUNNING, PENDING, REQUEUED = frozenset({"RUNNING"}), frozenset({"PENDING"}), frozenset({"PENDING", "COMPLETING"})
COMPLETED = frozenset({"COMPLETED"})
STATES = [None, RUNNING, PENDING, REQUEUED, COMPLETED]
NODES = ("n1", "n2")


def gang_id(number):
    return GangId(namespace="default", name=f"web-{number}", uid=f"uid-{number}")


class Course:
    """A ledger to which things happen, and a clock that goes by hand."""

    def __init__(self):
        self.now = 0.0
        self.ledger = Ledger(lambda: self.now)

    def jobs(self):
        return [(record, job) for record in self.ledger for job in record.jobs.values()]

    def happen(self, what, number, detail):
        id = number + 1
        record = self.ledger.by_job(id)
        job = record.jobs.get(id) if record is not None else None
        match what, job:
            case "pass", _:
                self.now += (0.0, 0.5, 2.0, 5.0, 30.0)[detail]
            case "submit", _:
                self.ledger.add_job(self.ledger.ensure(gang_id((number + detail) % 3)), SlurmJob(id=id, user="k8s"))
            case _, None:
                pass
            case "poll", _:
                self.ledger.change_job(record, id, lambda job: job.observed(STATES[detail], asked_at=self.now))
            case "read", _:
                reason, nodes = ("Prolog", NODES) if detail % 2 else ("", NODES[:detail])
                found = SlurmJob(id=id, state=STATES[detail] or RUNNING, state_reason=reason, nodes=nodes)
                self.ledger.change_job(record, id, lambda job: job.read(found, at=self.now))
            case "ask", _:
                self.ask(record, id)
            case "prolog", _:
                self.ledger.change_job(record, id, lambda job: job.began(NODES[detail % 2], at=self.now))
            case "epilog", _:
                self.ledger.change_job(record, id, lambda job: job.ended(NODES[detail % 2], at=self.now))
            case "drop", _:
                self.ledger.drop_job(record, id)
            case "forget", _:
                self.ledger.forget(record)

    def ask(self, record, id):
        self.ledger.change_job(record, id, lambda job: msgspec.structs.replace(job, read_at=self.now))

    def walked(self):
        """The jobs that are due, by a look at each: those that have started, then the others."""
        due = [job for _, job in self.jobs() if (at := details_due_at(job)) is not None and at <= self.now]
        return [job for job in due if job.has_started], [job for job in due if not job.has_started]

    def taken(self, started, waiting):
        found = self.ledger.due.take(self.now, started=started, waiting=waiting)
        return [job for job in found if job.has_started], [job for job in found if not job.has_started]


happenings = st.tuples(
    st.sampled_from(["pass", "submit", "poll", "poll", "read", "ask", "prolog", "epilog", "drop", "forget", "take"]),
    st.integers(0, 4),
    st.integers(0, 4),
)


@hypothesis.given(course=st.lists(happenings, max_size=60), started=st.integers(0, 5), waiting=st.integers(0, 5))
def test_what_is_taken_after_any_course_is_due_and_as_much_as_may_be(course, started, waiting):
    it = Course()
    for what, number, detail in [*course, ("take", 0, 0), ("pass", 0, 4), ("take", 0, 0)]:
        if what != "take":
            it.happen(what, number, detail)
            continue
        for all_due, found, limit in zip(it.walked(), it.taken(started, waiting), (started, waiting), strict=True):
            assert len(found) == min(limit, len(all_due))
            assert not Counter(map(id, found)) - Counter(map(id, all_due))


@pytest.mark.parametrize(
    ("read_s", "due_s"),
    [(float("-inf"), 2.0), (2.0, 7.0), (10.0, 15.0), (20.0, 30.0), (40.0, 60.0), (60.0, 90.0), (900.0, 930.0)],
)
def test_why_a_job_waits_is_read_less_often_the_longer_it_waits(read_s, due_s):
    assert details_due_at(make_job("PENDING", known_at=100.0, read_at=100.0 + read_s)) == 100.0 + due_s


@pytest.mark.parametrize("limit", [1, 3])
def test_of_jobs_that_wait_those_are_read_first_that_were_read_longest_ago(limit):
    it = Course()
    for number in range(6):
        it.happen("submit", number, 0)
        it.happen("poll", number, 2)
    it.now, seen = 100.0, []
    for _ in range(6 // limit):
        for job in it.taken(0, limit)[1]:
            seen.append(job.id)
            it.ask(it.ledger.by_job(job.id), job.id)
        it.now += 5.0
    assert sorted(seen) == [1, 2, 3, 4, 5, 6]


def test_a_poll_of_tens_of_thousands_of_jobs_looks_at_few_of_them(monkeypatch):
    due, looks = DueJobs(), []
    for number in range(20_000):
        due.file(make_job("PENDING", id=number, known_at=0.0, read_at=5.0))
    monkeypatch.setattr("sunkpy.scheduler.jobs.due.details_due_at", lambda job: looks.append(job) or 20.0)
    assert due.take(10.0, started=500, waiting=50) == []
    assert len(looks) == 1000


def test_a_job_that_was_never_read_does_not_wait_for_others():
    due = DueJobs()
    for number in range(100):
        due.file(make_job("PENDING", id=number, known_at=0.0, read_at=5.0))
    due.file(make_job("PENDING", id=100, known_at=1.0))
    assert [job.id for job in due.take(60.0, started=0, waiting=2)] == [100, 0]


async def test_a_poll_that_is_hurried_comes_at_once_and_is_one():
    due = DueJobs()
    due.hurry()
    due.file(make_job("PENDING", id=1, known_at=0.0, read_at=5.0))
    async with asyncio.timeout(60):
        await due.wait_for_poll(within_s=3600)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await due.wait_for_poll(within_s=3600)
