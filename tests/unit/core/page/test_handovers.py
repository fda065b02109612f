from datetime import timedelta

import msgspec

from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.overview.pool import PoolFacts
from sunkpy.core.overview.queue import QueuedJob
from sunkpy.core.page.handovers import find_handovers
from tests.unit.core.overview.test_pool import on_node
from tests.unit.core.page.test_tables import NOW, event

AT = NOW - timedelta(minutes=10)


def preemption(by=" by Slurm job 57 (user alice, partition high)"):
    message = f"Slurm job 12 was preempted{by}; the pod is evicted"
    where = {"kind": "Pod", "name": "web", "namespace": "team", "by": "scheduler"}
    return event("PreemptionByScheduler", message=message, at=AT.isoformat(), **where)


def job(id, *state, starts_s=0, **fields):
    return QueuedJob(row=JobRow(id=id, state=frozenset(state), user="ann"), starts_s=starts_s, **fields)


def found(*, events=(), jobs=(), pods=(), before=None, now=NOW):
    return find_handovers(events, PoolFacts(jobs=tuple(jobs), pods=tuple(pods)), now, before or {})


def only(**how):
    (row,) = found(**how).values()
    return row


def test_who_lost_the_node_to_whom_and_how_long_the_next_job_waited():
    row = only(events=[preemption()], jobs=[job(57, "RUNNING", starts_s=int(AT.timestamp()) + 14)])
    assert (row.pod, row.job, row.cause, row.by_job) == ("team/web", 12, "was preempted", 57)
    assert row.by == "Slurm job 57 (user alice, partition high)"
    assert (row.is_open, row.took_s) == (False, 14)


def test_a_hand_over_goes_on_while_the_next_job_waits_or_the_pod_is_there():
    assert only(events=[preemption()], jobs=[job(57, "PENDING")]).is_open
    assert only(events=[preemption("")], pods=[on_node("web", 1)]).is_open
    assert not only(events=[preemption("")]).is_open


def test_how_long_it_took_is_remembered_when_slurm_has_forgotten():
    before = found(events=[preemption()], pods=[on_node("web", 1)], now=AT + timedelta(seconds=5))
    seen = found(events=[preemption()], before=before, now=AT + timedelta(seconds=20))
    later = found(events=[preemption()], before=seen)
    assert [row.took_s for rows in (before, seen, later) for row in rows.values()] == [None, 20, 20]
    assert only(events=[preemption()]).took_s is None, "nobody saw it"


def test_jobs_of_people_that_gave_way_are_told_while_slurm_remembers_them():
    gone = job(9, "PREEMPTED", ended_s=int(AT.timestamp()))
    of_pods = msgspec.structs.replace(gone, row=JobRow(id=8, state=frozenset({"PREEMPTED"}), comment="k8s:a/b:u"))
    row = only(jobs=[gone, of_pods, job(7, "COMPLETED", ended_s=5)])
    assert (row.job, row.user, row.cause, row.pod) == (9, "ann", "was preempted", "")


def test_an_event_that_is_not_of_that_form_is_told_as_it_is():
    odd = msgspec.structs.replace(preemption(), message="<b>odd</b>")
    assert (only(events=[odd]).cause, only(events=[odd]).job) == ("<b>odd</b>", 0)
