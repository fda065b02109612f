"""Jobs are read one by one, as they change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import Slurm
from sunkpy.syncer.job_reader import JobReader
from tests.doubles.serving import serving
from tests.doubles.slurmrestd import Slurmrestd


class Jobs:
    """A Slurm with jobs, and what was read of them."""

    def __init__(self, slurm: Slurmrestd, client: Slurm) -> None:
        self.slurm, self._client = slurm, client

    def reader(self, most: int, **how: Callable[[], bool]) -> JobReader:
        return JobReader(self._client, scheduler_user="k8s", most=most, **how)

    def read(self) -> list[int]:
        """The jobs that were read since the last call."""
        asked, self.slurm.requests = self.slurm.requests, []
        return sorted(int(each.rpartition("/")[2]) for each in asked if each.startswith("GET job/"))


@pytest.fixture
async def jobs(tmp_path) -> AsyncIterator[Jobs]:
    key = tmp_path / "jwt.key"
    key.write_bytes(b"k" * 32)
    slurm = Slurmrestd()
    async with serving(slurm.app()) as port:
        settings = SlurmSettings(url=f"http://127.0.0.1:{port}", version="v0.0.45", jwt_key_file=str(key))
        client = Slurm.connect(settings)
        yield Jobs(slurm, client)
        await client.close()


async def test_only_what_has_changed_is_read_again(jobs: Jobs) -> None:
    first, second = (jobs.slurm.add_job("RUNNING", comment="", user="ann") for _ in range(2))
    reader = jobs.reader(10)
    assert {row.id for row in await reader.refresh() or ()} == {first, second}
    assert jobs.read() == [first, second]
    jobs.slurm.set_job(second, "COMPLETED")
    rows = {row.id: row.state for row in await reader.refresh() or ()}
    assert rows == {first: {"RUNNING"}, second: {"COMPLETED"}}
    assert jobs.read() == [second]


async def test_one_that_may_have_started_since_asks_for_no_nodes(jobs: Jobs) -> None:
    waiting = [jobs.slurm.add_job("PENDING", comment="") for _ in range(2)]
    reader = jobs.reader(1)
    for _ in waiting:
        rows = await reader.refresh() or []
    assert [row.waits is not None for row in rows] == [True, True]
    for job in waiting:
        jobs.slurm.set_job(job, "RUNNING")
    rows = await reader.refresh() or []
    assert sorted("PENDING" in row.state for row in rows) == [False, True], "one of them is read in a turn"
    assert [row.waits for row in rows] == [None, None]


async def test_what_jobs_ask_for_is_there_from_when_somebody_asks(jobs: Jobs) -> None:
    jobs.slurm.add_job("PENDING", comment="")
    asks: list[bool] = []
    reader = jobs.reader(10, with_waits=lambda: bool(asks))
    assert [row.waits for row in await reader.refresh() or ()] == [None]
    asks.append(True)
    assert [row.waits is not None for row in await reader.refresh() or ()] == [True]


async def test_a_job_that_slurm_forgets_is_gone(jobs: Jobs) -> None:
    gone = jobs.slurm.add_job("RUNNING", comment="")
    reader = jobs.reader(10)
    await reader.refresh()
    del jobs.slurm.jobs[gone]
    assert await reader.refresh() == []


async def test_a_task_of_an_array_is_there_once(jobs: Jobs) -> None:
    """Slurm answers for the array with all its tasks, and for each that has started too."""
    array, task = (jobs.slurm.add_job(state, comment="") for state in ("PENDING", "RUNNING"))
    jobs.slurm.tasks[array] = [task]
    reader = jobs.reader(10)
    assert sorted(row.id for row in await reader.refresh() or ()) == [array, task]
    jobs.slurm.set_job(task, "COMPLETED")
    rows = sorted((row.id, *row.state) for row in await reader.refresh() or ())
    assert rows == [(array, "PENDING"), (task, "COMPLETED")]


async def test_what_waits_is_read_in_turn_for_its_reason(jobs: Jobs) -> None:
    first, second = (jobs.slurm.add_job("PENDING", comment="", state_reason="Priority") for _ in range(2))
    reader = jobs.reader(2)
    await reader.refresh()
    jobs.read()
    jobs.slurm.set_job(first, "PENDING", state_reason="Resources")
    third = jobs.slurm.add_job("RUNNING", comment="")
    await reader.refresh()
    turn = jobs.read()
    assert third in turn, "first what is new"
    await reader.refresh()
    assert set(turn) | set(jobs.read()) >= {first, second}
    reasons = {row.id: row.reason for row in await reader.refresh() or ()}
    assert reasons[first] == "Resources"


async def test_once_all_were_read_new_ones_above_the_limit_are_counted(jobs: Jobs) -> None:
    jobs.slurm.add_job("RUNNING", comment="")
    reader = jobs.reader(1)
    assert await reader.refresh() is not None
    for _ in range(3):
        jobs.slurm.add_job("RUNNING", comment="")
    assert len(await reader.refresh() or ()) == 2
    assert reader.unread == 2
