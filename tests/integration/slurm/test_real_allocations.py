"""Allocations on a real Slurm: granted or refused at once, and what they outlive."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.request import PLACEHOLDER_SCRIPT
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.scheduler.jobs.search import JobSearch
from sunkpy.scheduler.jobs.writer import JobWriter, NotSubmitted
from sunkpy.scheduler.record import GangRecord
from sunkpy.slurm import NodesSnapshot, Slurm, errors
from tests.doubles.leading import make_leader
from tests.integration.slurm.asking import connect, granted, happens, is_usable
from tests.integration.slurm.daemons import NODE, RealSlurm

pytestmark = pytest.mark.integration

GANG = GangId(namespace="default", name="web-0", uid="uid")
WAITING = "#!/bin/bash\nsleep infinity\n"


def job(**changes: object) -> JobSpec:
    fields = {"name": "web-0", "script": WAITING, "comment": GANG.comment(), "memory_mib_per_node": 10}
    return JobSpec(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
async def idle_node(real: RealSlurm, admin: Slurm) -> None:
    """Nothing is left of the test before."""
    for job_id, state in (await admin.jobs_state()).items():
        if state & {"PENDING", "RUNNING"}:
            await admin.cancel_job(job_id)
    await happens(real, lambda: _is_idle(admin))


async def allocate(real: RealSlurm, slurm: Slurm, **changes: object) -> JobId:
    """An allocation whose prolog is through."""
    return await granted(real, slurm, job(**changes))


async def test_an_allocation_runs_at_once_on_a_free_node(real: RealSlurm, submitter: Slurm) -> None:
    allocation = await submitter.allocate_now(job())
    assert allocation is not None
    seen = await submitter.job(allocation.job_id)
    assert (seen.is_running, seen.nodes, seen.is_batch, seen.user) == (True, (NODE,), False, "k8s")
    assert (seen.comment, seen.tasks, seen.layout) == (GANG.comment(), 1, ((NODE, 1),))


async def test_a_refused_one_leaves_nothing_in_the_queue(real: RealSlurm, submitter: Slurm) -> None:
    await allocate(real, submitter, cpus_per_task=2)
    before = await submitter.jobs_state()
    assert await submitter.allocate_now(job()) is None
    assert await submitter.allocate_now(job(partition="high")) is None, "it preempts nobody"
    left = {id: state for id, state in (await submitter.jobs_state()).items() if id not in before}
    assert set(left.values()) == {frozenset({"FAILED"})}


async def test_it_passes_nobody_who_waits_in_its_partition(real: RealSlurm, submitter: Slurm) -> None:
    await allocate(real, submitter)
    first = (await submitter.submit_job(job(cpus_per_task=2))).job_id

    async def waits() -> bool:
        return (await submitter.job(first)).state_reason == "Resources"

    await happens(real, waits)
    assert await submitter.allocate_now(job()) is None


async def test_it_is_no_script_that_a_signal_could_end(real: RealSlurm, submitter: Slurm) -> None:
    job_id = await allocate(real, submitter)
    with pytest.raises(errors.Rejected, match="Job script not specified"):
        await submitter.signal_job(job_id, "USR1")
    assert (await submitter.job(job_id)).is_running
    await submitter.cancel_job(job_id)
    await ends_as(real, submitter, job_id, "CANCELLED")
    with pytest.raises(errors.AlreadyDone):
        await submitter.cancel_job(job_id)


async def test_it_is_preempted_as_batch_jobs_are(real: RealSlurm, submitter: Slurm) -> None:
    job_id = await allocate(real, submitter, cpus_per_task=2)
    above = (await submitter.submit_job(job(partition="high", comment=""))).job_id
    await ends_as(real, submitter, job_id, "PREEMPTED")
    assert real.epilogs()[job_id] == GANG.comment()
    await happens(real, lambda: _is_running(submitter, above))


@pytest.mark.parametrize(("signal", "daemon"), [("KILL", "slurmctld"), ("TERM", "slurmctld"), ("KILL", "slurmd")])
async def test_it_outlives_the_daemons(
    real: RealSlurm, admin: Slurm, submitter: Slurm, signal: str, daemon: str
) -> None:
    name = f"outlives-{signal}-{daemon}"
    job_id = await allocate(real, submitter, name=name)

    async def is_saved() -> bool:
        return real.has_saved(name)

    async def is_back() -> bool:
        return real.starts(daemon) > starts and await is_usable(admin)

    await happens(real, is_saved)
    starts = real.starts(daemon)
    real.send(signal, daemon)
    await happens(real, is_back)
    seen = await submitter.job(job_id)
    assert (seen.is_running, seen.nodes, seen.is_batch, seen.comment) == (True, (NODE,), False, GANG.comment())
    await submitter.cancel_job(job_id)
    await ends_as(real, submitter, job_id, "CANCELLED")
    await happens(real, lambda: _has_epilog(real, job_id))
    assert real.epilogs()[job_id] == GANG.comment()


async def test_one_whose_answer_was_lost_is_found_and_not_made_twice(real: RealSlurm, admin: Slurm) -> None:
    async with losing_answers(real) as (url, is_lost):
        slurm = connect(real, "k8s", url)
        await slurm.ping()
        writer, record, search = make_writer(slurm)
        is_lost.set()
        with pytest.raises(NotSubmitted):
            await writer.submit(record, request())
        is_lost.clear()
        await asyncio.sleep(1.1)  # a late one would be there by now
        reading = asyncio.ensure_future(search.run())
        try:
            async with asyncio.timeout(60):
                assert await writer.submit(record, request()) is None
        finally:
            reading.cancel()
            await slurm.close()
    (known,) = record.jobs.values()
    assert known.is_allocation
    own = [seen for seen in await admin.jobs() if seen.comment == GANG.comment() and not seen.is_ended]
    assert [seen.id for seen in own] == [known.id]


async def test_what_finds_no_room_waits_as_a_batch_job(real: RealSlurm, admin: Slurm, submitter: Slurm) -> None:
    in_the_way = await allocate(real, submitter, cpus_per_task=2, comment="")
    writer, record, _ = make_writer(submitter)
    job_id = await writer.submit(record, request())
    assert job_id is not None
    seen = await admin.job(job_id)
    assert (seen.is_pending, seen.is_batch, record.jobs[job_id].is_allocation) == (True, True, False)
    tried = await admin.jobs_state()
    other = GangRecord(id=GangId(namespace="default", name="web-1", uid="uid-1"), seen_at=0)
    behind = await writer.submit(other, request())
    new = (await admin.jobs_state()).keys() - tried.keys()
    assert new == {behind}, "nothing was tried, for it would not have been the first"
    await submitter.cancel_job(in_the_way)
    await happens(real, lambda: _is_running(submitter, job_id))


def make_writer(slurm: Slurm) -> tuple[JobWriter, GangRecord, JobSearch]:
    leader = make_leader(slurm, clock=asyncio.get_running_loop().time)
    record = leader.ledger.ensure(GANG)

    def learned(id: JobId, job: SlurmJob | None, asked_at: float, _: bool) -> None:
        if job is not None and search.whose[id] == GANG:
            leader.ledger.take_job(record, job, asked_at=asked_at)

    search = JobSearch(leader, learned=learned)
    return JobWriter(leader, search), record, search


def request() -> JobSpec:
    """A service of one pod."""
    return JobSpec(
        name="web-0",
        comment=GANG.comment(),
        tasks=1,
        cpus_per_task=1,
        minimum_nodes=1,
        maximum_nodes=1,
        memory_mib_per_node=10,
        script=PLACEHOLDER_SCRIPT,
        at_once=True,
    )


@contextlib.asynccontextmanager
async def losing_answers(real: RealSlurm) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """The way to slurmrestd, on which answers get lost while the event is set: the request arrived."""
    is_lost = asyncio.Event()
    port = int(real.url.rpartition(":")[2])

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        while text := await reader.read(65536):
            if is_answer and is_lost.is_set():
                break
            writer.write(text)
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pass_on(reader, back, is_answer=False), pass_on(there, writer, is_answer=True))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", is_lost


async def ends_as(real: RealSlurm, slurm: Slurm, job_id: JobId, state: str) -> None:
    async def has_ended() -> bool:
        seen = await slurm.job(job_id)
        return seen.is_ended and not seen.is_completing

    await happens(real, has_ended)
    assert (await slurm.job(job_id)).state == {state}


async def _is_idle(slurm: Slurm) -> bool:
    """Asked of all nodes: only then slurmctld looks again which cpus are in use (`_slurm_rpc_dump_node_single`)."""
    seen = await slurm.nodes()
    return isinstance(seen, NodesSnapshot) and not seen.nodes[NODE].is_busy


async def _is_running(slurm: Slurm, job_id: JobId) -> bool:
    return (await slurm.job(job_id)).is_running


async def _has_epilog(real: RealSlurm, job_id: JobId) -> bool:
    return job_id in real.epilogs()
