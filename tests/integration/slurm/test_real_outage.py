"""A scheduler that answers nobody, and jobs that come to nodes where pods may be: each waits, and no node is lost."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.integration.slurm.site import Site
from tests.polling import until

pytestmark = pytest.mark.integration

_MARKED = ("c1", "c2")
_OLD_JOB = 9_999_999
_SILENT = "SUNKPY_HOOKS_URL=http://127.0.0.1:1\nSUNKPY_OUTAGE_TIMEOUT_S=2\n"
_SUBMIT = """\
cd; export SBATCH_MEM_PER_NODE=100 SBATCH_TIMELIMIT=1 SALLOC_MEM_PER_NODE=100
sbatch() { command sbatch --parsable --no-requeue --output=/dev/null --wrap='touch ran-$SLURM_JOB_ID' "$@"; }
sbatch --nodelist=c1,c2 --nodes=2; sbatch --nodelist=c1; sbatch --nodelist=c3; sbatch --nodelist=c1 --array=0-1
timeout --signal=KILL 120 salloc --no-shell --job-name=asked --nodelist=c2 --time=1 &> asked &
for _ in {1..50}; do squeue --noheader --format=%A --name=asked | grep . && break; sleep 0.2; done || cat asked
"""
"""A job of two nodes, one, one whose node has no marks, an array, and an allocation."""

_TAKE_ORDERS = """\
#!/usr/bin/python3
import os, socket
with socket.create_server(("", int(os.environ["SUNKPY_SLURMD_PORT"]))) as server:
    server.settimeout(0.1)
    open("/var/tmp/window", "w").close()
    while os.path.exists("/var/tmp/window"):
        try:
            server.accept()[0].close()
            open("/var/tmp/ordered", "w").close()
        except TimeoutError:
            pass
"""
_ALLOCATE_C3 = """\
cd; timeout --signal=KILL 120 salloc --no-shell --job-name=once --nodelist=c3 --time=1 --mem=100 &> once &
begun() { squeue --noheader --states=all --format='%A %T' --name=once | sed -n '/PENDING/!s/ .*//p'; }
for _ in {1..50}; do begun | grep . && break; sleep 0.1; done
"""
_ALLOCATE_BOTH = """\
cd; timeout --signal=KILL 120 salloc --no-shell --job-name=both --nodes=2 --nodelist=c1,c2 --time=2 --mem=100 &> both &
for _ in {1..50}; do squeue --noheader --format=%A --name=both | grep . && break; sleep 0.2; done || cat both
"""


@pytest.fixture
async def silent(site: Site) -> AsyncIterator[Site]:
    """Two nodes on which pods may be, and a scheduler that is away."""
    etc = {name: site.root_of(name) / "etc/sunkpy/hooks.env" for name in _MARKED}
    before = {name: env.read_text() for name, env in etc.items()}
    marks = [site.root_of(name) / f"var/lib/sunkpy/markers/{_OLD_JOB}" for name in _MARKED]
    for name in _MARKED:
        etc[name].write_text(before[name] + _SILENT)
    for mark in marks:
        mark.touch()
    yield site
    for mark in marks:
        mark.unlink(missing_ok=True)
    await site.clear()
    for name in _MARKED:
        etc[name].write_text(before[name])


async def test_jobs_wait_for_a_silent_scheduler_and_no_node_is_drained(silent: Site) -> None:
    site = silent
    code, said = await asyncio.to_thread(site.shell, "ann", _SUBMIT)
    assert (code, len(said.split())) == (0, 5), said
    two, one, elsewhere, array, allocation = said.split()
    tasks = [f"{array}_0", f"{array}_1"]

    async def queued_again() -> bool:
        again = [await _job(site, job) for job in (two, one, *tasks)]
        return all(" JobState=PENDING " in job and re.search(r" Requeue=0 Restarts=[1-9]", job) for job in again)

    await _happens(site, queued_again, "all batch jobs are queued again")

    async def waits_on() -> bool:
        return " JobState=RUNNING Reason=Prolog " in await _job(site, allocation)

    # Of an allocation nothing is queued: it waits on, until somebody does not want it any more.
    await _happens(site, waits_on, "the allocation waits")
    await asyncio.to_thread(site.shell, "ann", f"scancel {allocation}")

    async def is_free() -> bool:
        nodes = await asyncio.to_thread(site.slurm.run_as, "slurm", "sinfo", "-hN", "-n", "c1,c2", "-o", "%N %T %E")
        return set(nodes[1].splitlines()) == {"c1 idle none", "c2 idle none"}

    async def has_run_elsewhere() -> bool:
        return elsewhere in _ran(site)

    await _happens(site, is_free, "the nodes are free, and open")
    await _happens(site, has_run_elsewhere, "the job of the third node has run")
    assert _ran(site) == {elsewhere}

    # The pods have left: Slurm tries again.
    for name in _MARKED:
        (site.root_of(name) / f"var/lib/sunkpy/markers/{_OLD_JOB}").unlink()
    await asyncio.sleep(3)  # slurmd refuses a job within two seconds of its end
    for job in (two, one, array):
        await asyncio.to_thread(site.slurm.run_as, "slurm", "scontrol", "update", f"job={job}", "starttime=now")

    async def have_run() -> bool:
        return len(_ran(site)) == 5

    await _happens(site, have_run, "all have run")


async def test_an_allocation_that_starts_while_slurmd_does_is_ended(site: Site) -> None:
    """slurmctld orders its Prolog once. That of 24.11 takes a closed connection for an answer, so the job would wait,
    and requeue-lost cancels it. That of 26.05 ends the job itself, and tells slurmd a minute later."""
    last = site.slurm.root / "usr/local/bin/describe-cpus"  # what start-slurmd does last
    original, window = last.read_text(), site.slurm.root / "var/tmp/window"
    ordered = window.with_name("ordered")
    last.write_text(_TAKE_ORDERS)
    try:
        await asyncio.to_thread(site.kill_slurmd_container, "c3")
        await _happens(site, lambda: asyncio.to_thread(window.exists), "slurmd is about to start")
        ordered.unlink(missing_ok=True)
        code, job = await asyncio.to_thread(site.shell, "ann", _ALLOCATE_C3)
        assert (code, job.strip().isdigit()) == (0, True), job
        await _happens(site, lambda: asyncio.to_thread(ordered.exists), "slurmctld orders its Prolog")
    finally:
        last.write_text(original)
        window.unlink(missing_ok=True)
    cancelled = f"start-slurmd: allocation {job.strip()} waited in a Prolog that died with the previous slurmd"
    revoked = f"Revoking job JobId={job.strip()} "

    async def is_ended() -> bool:
        log = site.slurm.root / "var/log"
        ends = (("CANCELLED", "slurmd-c3.log", cancelled), ("NODE_FAIL", "slurmctld.log", revoked))
        record = await _job(site, job.strip())
        return any(f" JobState={state} " in record and said in (log / file).read_text() for state, file, said in ends)

    await _happens(site, is_ended, "the allocation is ended", timeout_s=150)
    await site.clear()


async def test_an_allocation_that_waits_on_another_node_outlives_the_slurmd_that_it_has_passed(silent: Site) -> None:
    """Slurm does not say on which of its nodes it waits: only the node itself knows that its own Prolog has ended."""
    site = silent
    marks = {name: site.root_of(name) / f"var/lib/sunkpy/markers/{_OLD_JOB}" for name in _MARKED}
    marks["c1"].unlink()
    code, said = await asyncio.to_thread(site.shell, "ann", _ALLOCATE_BOTH)
    job = said.strip()
    assert (code, job.isdigit()) == (0, True), said
    passed = marks["c1"].parent / "passed" / job

    async def has_passed() -> bool:
        return await asyncio.to_thread(passed.exists) and " Reason=Prolog " in await _job(site, job)

    await _happens(site, has_passed, "its Prolog on c1 has ended, and that on c2 waits")
    assert await asyncio.to_thread(site.look_for_lost, "c1") == ""
    assert " JobState=RUNNING Reason=Prolog " in await _job(site, job)
    passed.unlink()
    said = await asyncio.to_thread(site.look_for_lost, "c1")
    assert f"allocation {job} waited in a Prolog that died with the previous slurmd and is cancelled" in said


async def _happens(site: Site, check: Callable[[], Awaitable[bool]], what: str, *, timeout_s: float = 60) -> None:
    try:
        await until(check, timeout_s=timeout_s, what=what, every_s=0.3)
    except TimeoutError as error:
        queue = await asyncio.to_thread(site.slurm.run_as, "slurm", "squeue", "-a")
        raise AssertionError(f"{error}:\n{queue[1]}\n{site.logs()}") from None


async def _job(site: Site, job: str) -> str:
    return (await asyncio.to_thread(site.slurm.run_as, "slurm", "scontrol", "-o", "show", "job", job))[1]


def _ran(site: Site) -> set[str]:
    return {path.name.removeprefix("ran-") for path in (site.slurm.root / "home/ann").glob("ran-*")}
