"""A slurmd that ends and comes back under what runs on its node: what a roll under services rests on.

A pod that goes takes all its processes with it, so the steps are killed with the slurmd here.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator

import pytest

from sunkpy.core import names
from sunkpy.core.mirror.services import ServiceQuestion, question_of
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import Meta, Pod
from sunkpy.core.model.states import JobId, SlurmNode
from sunkpy.slurm import NodesSnapshot, Slurm
from sunkpy.syncer.service_check import ServiceCheck
from tests import process_tree
from tests.integration.slurm.asking import connect, granted, happens, is_usable
from tests.integration.slurm.daemons import NODE, ONE_SLURMD, TELL_BEGUN, Machines, RealSlurm

pytestmark = pytest.mark.integration

REASON = "k8s: pod pending deletion: rollout"
TOKEN = "2026-11-22T12:00:00+00:00/rollout"
COMMENT = "k8s:default/web-0:uid"
SIZE = "CPUs=4 RealMemory=1000 Feature=gpu"

_MAY_BE_AWAY = f"""\
echo '{SIZE}' > /var/tmp/size
while :; do
  while [ -e /var/tmp/leave ]; do touch /var/tmp/is-away; sleep 0.1; done
  rm -f /var/tmp/is-away
  /usr/sbin/slurmd -D -Z -N {NODE} --conf "$(cat /var/tmp/size)"
  sleep 0.2
done >> /var/log/slurmd.log 2>&1 &
"""
_MORE_CONF = """\
BatchStartTimeout=1
PartitionName=shared Nodes=ALL PriorityTier=1 OverSubscribe=FORCE:2
"""
_CONTAINED = pytest.mark.parametrize("real", ["Alloc,Contain"], indirect=True)
"""As the chart has it with `compute.ssh`: each job has one more step on each of its nodes, which runs nothing."""


@pytest.fixture(scope="module")
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """One whose slurmd may be away for a while; its PrologFlags may be others."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    suite = os.environ.get("SLURM_SUITE", "trixie")
    flags = f"PrologFlags={getattr(request, 'param', 'Alloc')}\n"
    conf = ONE_SLURMD.conf.replace("PrologFlags=Alloc\n", flags) + _MORE_CONF
    machines = Machines(conf=conf, start=_MAY_BE_AWAY, files=ONE_SLURMD.files)
    slurm = RealSlurm(tmp_path_factory.mktemp("rolls"), suite, people={"ada": 2001}, machines=machines)
    yield slurm
    slurm.stop()


@pytest.fixture
async def ada(real: RealSlurm) -> AsyncIterator[Slurm]:
    """A person, by herself."""
    slurm = connect(real, "ada")
    yield slurm
    await slurm.close()


@pytest.fixture(autouse=True)
async def open_and_idle(real: RealSlurm) -> AsyncIterator[None]:
    """Nothing is left for the next test."""
    yield
    slurm = connect(real, "slurm")
    for job_id, state in (await slurm.jobs_state()).items():
        if state & {"PENDING", "RUNNING", "SUSPENDED"}:
            await slurm.cancel_job(job_id)
    await _comes_back(real)
    await happens(real, lambda: _is_empty(slurm))
    if (await slurm.node(NODE)).is_drain:
        await slurm.undrain_node(NODE)
    await happens(real, lambda: is_usable(slurm))
    await slurm.close()


async def test_services_outlive_it_and_their_node_stays_busy_and_closed(
    real: RealSlurm, admin: Slurm, submitter: Slurm
) -> None:
    await _outlives(real, admin, submitter, await _allocate(real, submitter))


@_CONTAINED
async def test_so_do_services_that_have_a_step(real: RealSlurm, admin: Slurm, submitter: Slurm) -> None:
    web = await _allocate(real, submitter)
    assert _steps_of(real, web) == ["extern"], "what stop-slurmd does not wait for"
    await _outlives(real, admin, submitter, web)
    assert _steps_of(real, web) == []


async def _outlives(real: RealSlurm, admin: Slurm, submitter: Slurm, web: JobId) -> None:
    question = await _close(real, admin, web)
    assert await ServiceCheck(admin, scheduler_user="k8s", timeout_s=5.0).ask(question)
    before = await _node(admin)
    await _leaves(real)
    away = await _node(admin)
    assert before is not None
    assert away is not None
    assert (away.is_registered, away.slurmd_since_s) == (True, before.slurmd_since_s), "as if nothing had happened"
    assert question_of(_rolled(web), away) == question, "a pod that brings no slurmd may be replaced as well"
    assert (await submitter.job(web)).is_running
    await _comes_back(real)
    after, node = await submitter.job(web), await _node(admin)
    assert (after.is_running, after.state_reason, after.nodes, after.comment) == (True, "", (NODE,), COMMENT)
    assert node is not None
    assert (node.is_drained_by_us, node.is_registered, node.alloc_cpus) == (True, True, question.cpus)
    assert node.slurmd_since_s > before.slurmd_since_s
    assert await ServiceCheck(admin, scheduler_user="k8s", timeout_s=5.0).ask(question)
    await admin.undrain_node(NODE)
    await happens(real, lambda: is_usable(admin))
    await submitter.cancel_job(web)
    await happens(real, lambda: _has_epilog(real, web))
    assert real.epilogs()[web] == COMMENT


async def test_a_batch_job_does_not(real: RealSlurm, admin: Slurm, submitter: Slurm) -> None:
    job = await _run_batch(real, submitter)
    await asyncio.sleep(12)  # Slurm misses no job that began less than BatchStartTimeout and 10 s ago
    await _leaves(real)
    await _comes_back(real)

    async def is_lost() -> bool:
        return (await admin.job(job)).is_ended

    await happens(real, is_lost)
    assert (await admin.job(job)).state & {"FAILED", "NODE_FAIL", "CANCELLED"}


@pytest.mark.parametrize("beside", ["runs", "is suspended", "is noted as well", "shares its cpus"])
async def test_a_batch_job_beside_a_service_is_seen(
    real: RealSlurm, admin: Slurm, submitter: Slurm, beside: str
) -> None:
    where = {"partition": "shared"} if beside == "shares its cpus" else {}
    web = await _allocate(real, submitter, cpus_per_task=4 if where else 2, **where)
    job = await _run_batch(real, submitter, **where)
    if beside == "is suspended":
        assert real.run_as("slurm", "scontrol", "suspend", str(job))[0] == 0
    noted = [web, job] if beside == "is noted as well" else [web]
    question = await _close(real, admin, *noted)
    if beside == "is suspended":
        assert question.cpus == 2, "Slurm takes the cpus from what is suspended"
    if beside == "shares its cpus":
        assert question.cpus == 4, "Slurm counts once what is shared"
    assert not await ServiceCheck(admin, scheduler_user="k8s", timeout_s=5.0).ask(question)


async def test_an_allocation_of_a_person_is_none_of_pods(real: RealSlurm, admin: Slurm, ada: Slurm) -> None:
    question = await _close(real, admin, await _allocate(real, ada, comment=""))
    assert not await ServiceCheck(admin, scheduler_user="k8s", timeout_s=5.0).ask(question)


@pytest.mark.parametrize("user", [2001, 0], ids=["a person", "root"])
async def test_nobody_but_the_scheduler_has_a_process_in_its_jobs(
    real: RealSlurm, admin: Slurm, submitter: Slurm, user: int
) -> None:
    web = await _allocate(real, submitter)
    with pytest.raises(AssertionError, match="Access/permission denied"):
        real.as_user(user, "srun", "--jobid", str(web), "--overlap", "--ntasks=1", "true")


async def test_a_service_that_ends_meanwhile_holds_the_node_until_its_epilog_has_run(
    real: RealSlurm, admin: Slurm, submitter: Slurm
) -> None:
    web = await _allocate(real, submitter)
    await _close(real, admin, web)
    await _leaves(real)
    await submitter.cancel_job(web)

    async def is_completing() -> bool:
        node = await _node(admin)
        return node is not None and "COMPLETING" in node.state

    await happens(real, is_completing)
    assert web not in real.epilogs()
    node = await _node(admin)
    assert node is not None
    assert not node.is_drained
    await _comes_back(real)
    await happens(real, lambda: _has_epilog(real, web))
    await happens(real, lambda: _is_empty(admin))


@pytest.mark.parametrize(
    ("size", "is_invalid"), [("CPUs=3 RealMemory=1000 Feature=gpu", True), (f"{SIZE},new", False)], ids=["cpus", "word"]
)
async def test_a_slurmd_that_says_something_else_changes_no_record_while_a_job_is_there(
    real: RealSlurm, admin: Slurm, submitter: Slurm, size: str, is_invalid: bool
) -> None:
    web = await _allocate(real, submitter)
    await _close(real, admin, web)
    await _leaves(real)
    (real.root / "var/tmp/size").write_text(size)
    try:
        await _comes_back(real)

        async def says() -> bool:
            node = await _node(admin)
            return node is not None and node.is_invalid is is_invalid

        await happens(real, says)
        said = real.run_as("slurm", "scontrol", "show", "node", NODE)[1]
        assert ("CPUTot=4" in said, "AvailableFeatures=gpu\n" in said) == (True, True)
        assert (await submitter.job(web)).is_running
        await submitter.cancel_job(web)
        await happens(real, lambda: _has_epilog(real, web))
    finally:
        await _leaves(real)
        (real.root / "var/tmp/size").write_text(SIZE)
        await _comes_back(real)
        if (await admin.node(NODE)).is_held_by_others:  # INVALID_REG drains with a reason of Slurm's own
            await admin.undrain_node(NODE)


# ------------------------------------------------------------------------------------------------- what the tests do


async def _allocate(real: RealSlurm, slurm: Slurm, **changes: object) -> JobId:
    """An allocation of two cpus, past its Prolog."""
    return await granted(real, slurm, _job(**{"cpus_per_task": 2, **changes}))


def _steps_of(real: RealSlurm, job_id: JobId) -> list[str]:
    """As the processes of a job call themselves."""
    found = [process_tree.command_line(pid) for pid in real.running(rf"slurmstepd: \[{job_id}\..*")]
    return sorted({step for line in found for step in re.findall(r"\.(\w+)\]", line)})


async def _run_batch(real: RealSlurm, submitter: Slurm, **changes: object) -> JobId:
    """A batch job of one cpu that has begun, longer ago than BatchStartTimeout."""
    script = f"#!/bin/bash\n{TELL_BEGUN}sleep 600\n"
    job = (await submitter.submit_job(_job(script=script, comment="", **changes))).job_id

    async def has_begun() -> bool:
        return real.has_begun(job)

    await happens(real, has_begun)
    return job


def _job(**changes: object) -> JobSpec:
    fields = {"name": "web-0", "script": "", "comment": COMMENT, "memory_mib_per_node": 10}
    return JobSpec(**{**fields, **changes})  # type: ignore[arg-type]


def _rolled(*noted: JobId) -> Pod:
    notes = {names.ANNOTATION_PENDING_DELETION: TOKEN, names.ANNOTATION_JOBS: ",".join(map(str, noted))}
    return Pod(metadata=Meta(name=NODE, annotations=notes))


async def _close(real: RealSlurm, admin: Slurm, *noted: JobId) -> ServiceQuestion:
    """Drain the node as the syncer does; what it would ask then, had the operator noted these jobs."""
    await admin.drain_node(NODE, REASON)
    pod = _rolled(*noted)

    async def is_closed() -> bool:
        return question_of(pod, await _node(admin)) is not None

    await happens(real, is_closed)
    question = question_of(pod, await _node(admin))
    assert question is not None
    return question


async def _node(admin: Slurm) -> SlurmNode | None:
    """As the poll sees it: asked of all nodes, for only then slurmctld looks again what is in use."""
    seen = await admin.nodes()
    return seen.nodes.get(NODE) if isinstance(seen, NodesSnapshot) else None


async def _is_empty(admin: Slurm) -> bool:
    node = await _node(admin)
    return node is not None and not node.is_busy


async def _has_epilog(real: RealSlurm, job_id: JobId) -> bool:
    return job_id in real.epilogs()


def _slurmd_since(real: RealSlurm) -> str:
    """When the slurmd started that registered last."""
    told = real.run_as("slurm", "scontrol", "--oneliner", "show", "node", NODE)[1]
    return told.partition("SlurmdStartTime=")[2].partition(" ")[0]


async def _leaves(real: RealSlurm) -> None:
    """slurmd gets SIGTERM, and all processes that it had started die."""
    (real.root / "var/tmp/leave").write_text(_slurmd_since(real))
    await asyncio.sleep(1.1)  # Slurm says in whole seconds when a slurmd started
    real.send("TERM", "slurmd")

    async def is_away() -> bool:
        return (real.root / "var/tmp/is-away").exists()

    await happens(real, is_away)
    real.send("KILL", "slurmstepd")


async def _comes_back(real: RealSlurm) -> None:
    """The next slurmd runs and has registered."""
    leave = real.root / "var/tmp/leave"
    if not leave.exists():
        return
    before = leave.read_text()
    leave.unlink()

    async def is_back() -> bool:
        return _slurmd_since(real) not in ("", "None", before)

    await happens(real, is_back)
