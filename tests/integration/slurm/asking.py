"""Asks a real Slurm as one of its users, and waits for what it answers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import Slurm, errors
from tests.integration.slurm.daemons import NODE, RealSlurm
from tests.polling import until


def connect(real: RealSlurm, user: str, url: str = "") -> Slurm:
    """A client; `url` when it shall not speak to slurmrestd itself."""
    return Slurm.connect(SlurmSettings(url=url or real.url, user=user, jwt_key_file=str(real.key_file)))


async def happens(real: RealSlurm, check: Callable[[], Awaitable[bool]], *, timeout_s: float = 40) -> None:
    """Wait until it happens. If it does not, the error has the last lines of the daemons' logs."""
    try:
        await until(check, timeout_s=timeout_s, what="what the test waits for")
    except TimeoutError as error:
        raise AssertionError(f"{error}:\n{real.logs()}") from None


async def granted(real: RealSlurm, slurm: Slurm, job: JobSpec) -> JobId:
    """An allocation that Slurm has room for, past its Prolog."""
    allocation = await slurm.allocate_now(job)
    assert allocation is not None, real.logs()

    async def runs() -> bool:
        seen = await slurm.job(allocation.job_id)
        return seen.is_running and not seen.state_reason

    await happens(real, runs)
    return allocation.job_id


async def is_usable(slurm: Slurm) -> bool:
    """The node may be given jobs."""
    try:
        node = await slurm.node(NODE)
    except errors.SlurmError:
        return False
    return node.is_registered and not node.is_drain


@contextlib.asynccontextmanager
async def administrator(real: RealSlurm) -> AsyncIterator[Slurm]:
    """SlurmUser, once the node can be used."""
    slurm = connect(real, "slurm")
    await happens(real, lambda: is_usable(slurm))
    yield slurm
    await slurm.close()
