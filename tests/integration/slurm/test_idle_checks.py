"""A check of an idle machine on real daemons: any job gets the node, and a failure is reported with its log."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.health.idle_check import AGAIN_AFTER_S, CHECK, ENVIRONMENT, FAILED_ONCE, Outcome
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import Meta, Pod
from sunkpy.core.model.states import JobId
from sunkpy.core.model.times import utc_now
from sunkpy.core.nodeset.idle_checks import make_job, read_end
from sunkpy.slurm import Slurm, errors
from tests.integration.slurm.asking import administrator, connect, happens
from tests.integration.slurm.daemons import NODE, ONE_SLURMD, RealSlurm
from tests.unit.charts.test_idle_checks import ON, conf

pytestmark = pytest.mark.integration

POD = Pod(metadata=Meta(name=NODE, uid="u1", annotations={names.ANNOTATION_VERIFY_SECONDS: "60"}))
LONG = "sleep 300"
"""A check that lasts longer than any test waits."""
HELD = "var/tmp/held"
"""While this file is there, a check that has failed is not run again."""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """One node, the chart's partition of checks, and what the chart says of jobs of root."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    rendered = conf(ON).splitlines()
    (no_root,) = [line for line in rendered if line.startswith("DisableRootJobs=")]
    line = rendered[-1].replace("Nodes=compute", "Nodes=ALL")
    machines = msgspec.structs.replace(ONE_SLURMD, conf=f"{no_root}\n{ONE_SLURMD.conf}{line}\n")
    suite = os.environ.get("SLURM_SUITE", "trixie")
    slurm = RealSlurm(tmp_path_factory.mktemp("slurm"), suite, machines=machines, people={"ann": 2001})
    yield slurm
    slurm.stop()


@pytest.fixture
async def admin(real: RealSlurm) -> AsyncIterator[Slurm]:
    """As the syncer asks; the node is idle."""
    async with administrator(real) as slurm:
        await happens(real, lambda: _is_idle(slurm))
        yield slurm


async def _is_idle(slurm: Slurm) -> bool:
    node = await slurm.node(NODE)
    return node.state - {"DYNAMIC_NORM"} == {"IDLE"}


async def begin(real: RealSlurm, admin: Slurm, script: str, *, is_held: bool = False) -> JobId:
    """The check of the node runs. `is_held`: if it fails, it waits until the file `HELD` is gone."""
    (real.root / HELD).unlink(missing_ok=True)
    if is_held:
        (real.root / HELD).touch()
    check, kept = (real.root / path.lstrip("/") for path in (CHECK, ENVIRONMENT))
    for file in (check, kept):
        file.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(b"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\0HOME=/root\0SITE=two words\0")
    check.write_text(f"#!/bin/bash\n{script}\n")
    check.chmod(0o755)
    job = make_job(POD, await admin.node(NODE), partition="sunkpy-verify", qos="")
    soon = job.script.replace(f"sleep {AGAIN_AFTER_S}\n", f"while [ -e /{HELD} ]; do sleep 0.1; done\n")
    assert soon != job.script
    job = msgspec.structs.replace(job, script=soon)
    id = (await admin.submit_job(job, user="root")).job_id

    async def has_begun() -> bool:
        return not (await admin.job(id)).is_pending

    await happens(real, has_begun)
    return id


async def how_it_ended(real: RealSlurm, admin: Slurm, id: JobId) -> tuple[Outcome, str, str]:
    async def has_ended() -> bool:
        return read_end(await admin.job(id), POD, utc_now()) is not None

    await happens(real, has_ended)
    end = read_end(await admin.job(id), POD, utc_now())
    assert end is not None
    return end.outcome, end.text, end.log


async def test_any_job_takes_the_node_from_a_check(real: RealSlurm, admin: Slurm) -> None:
    for partition in ("low", "high"):
        check = await begin(real, admin, LONG)
        seen = await admin.job(check)
        assert (seen.user, seen.priority < 100, seen.capacity[NODE].cpus) == ("root", True, 2), "it has the whole node"
        assert (seen.admin_comment, seen.comment) == (f"sunkpy check of {NODE} u1",) * 2
        wants = JobSpec(
            name="p", comment="", script="#!/bin/bash\nsleep 1\n", partition=partition, memory_mib_per_node=10
        )
        person = connect(real, "ann")
        job = (await person.submit_job(wants)).job_id

        async def runs(job: JobId = job) -> bool:
            return not (await admin.job(job)).is_pending

        await happens(real, runs)
        outcome, text, _ = await how_it_ended(real, admin, check)
        assert (outcome, text.removesuffix("PREEMPTED")) == (Outcome.NOT_MADE, "its job ended as ")
        await person.close()
        await happens(real, lambda: _is_idle(admin))


async def test_nobody_else_has_a_job_there(real: RealSlurm, admin: Slurm) -> None:
    wants = JobSpec(name="p", comment="", script="#!/bin/bash\n", partition="sunkpy-verify", memory_mib_per_node=10)
    for user in ("ann", "k8s"):
        person = connect(real, user)
        with pytest.raises(errors.Rejected):
            await person.submit_job(wants)
        await person.close()


async def fails_once(real: RealSlurm, admin: Slurm, id: JobId) -> None:
    async def says_so() -> bool:
        return (await admin.job(id)).comment.startswith(FAILED_ONCE)

    await happens(real, says_so)


async def test_a_failure_is_told_with_its_log_while_the_node_is_held(real: RealSlurm, admin: Slurm) -> None:
    check = await begin(real, admin, "echo looking; printf '%0500d' 3 >&2; exit 3", is_held=True)
    await fails_once(real, admin, check)
    assert read_end(await admin.job(check), POD, utc_now()) is None
    (real.root / HELD).unlink()
    ended = await how_it_ended(real, admin, check)
    how, log = "verify failed with 3", f"{3:0450}"
    assert ended == (Outcome.FAILED, f"{how}, and 60 s before that: {how}", f"{log}\n--- 60 s later:\n{log}")
    assert (await admin.job(check)).is_running, "nothing else starts before the node is closed"
    await admin.cancel_job(check, user="root")
    assert await how_it_ended(real, admin, check) == ended


async def test_what_fails_once_passes_later_and_is_told(real: RealSlurm, admin: Slurm) -> None:
    check = await begin(real, admin, "[ -e $0.tried ] || { touch $0.tried; echo '/home: stale'; kill -KILL $$; }")
    ended = await how_it_ended(real, admin, check)
    assert ended == (Outcome.PASSED, "verify failed with 137, and passed 60 s later", "/home: stale")
    await happens(real, lambda: _is_idle(admin))
    assert await how_it_ended(real, admin, check) == ended


async def test_who_takes_the_node_before_it_has_passed_leaves_the_failure(real: RealSlurm, admin: Slurm) -> None:
    check = await begin(real, admin, "echo 'link is down'; exit 3", is_held=True)
    await fails_once(real, admin, check)
    person = connect(real, "ann")
    wants = JobSpec(name="p", comment="", script="#!/bin/bash\nsleep 1\n", partition="high", memory_mib_per_node=10)
    await person.submit_job(wants)
    outcome, text, log = await how_it_ended(real, admin, check)
    assert (outcome, log) == (Outcome.FAILED, "link is down")
    assert text == "verify failed with 3, and its job ended as PREEMPTED before it has passed"
    await person.close()


async def test_what_passes_leaves_the_node_at_once(real: RealSlurm, admin: Slurm) -> None:
    told = "$EUID $HOME $SITE $(command -v slurmd)"
    check = await begin(real, admin, f'set -eu; [ "{told}" = "0 /root two words /usr/sbin/slurmd" ]')
    assert await how_it_ended(real, admin, check) == (Outcome.PASSED, "", "")


async def test_the_programs_of_the_image_check_memory_and_disk(real: RealSlurm, admin: Slurm) -> None:
    passes = await begin(real, admin, "set -e; verify-memory 10 16; verify-disk /tmp 4")
    assert await how_it_ended(real, admin, passes) == (Outcome.PASSED, "", "")
    await happens(real, lambda: _is_idle(admin))
    fails = await begin(real, admin, "set -e; verify-memory 10 16; verify-disk /tmp/none 4")
    outcome, _, log = await how_it_ended(real, admin, fails)
    assert outcome is Outcome.FAILED
    assert "verify-disk: /tmp/none: cannot write: No such file or directory" in log
    await admin.cancel_job(fails, user="root")
