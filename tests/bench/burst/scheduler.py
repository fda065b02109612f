"""Our scheduler as a process of its own, what it counts, and its hooks as the scripts of a node would call them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec

from sunkpy.core import names
from sunkpy.core.model.states import JobId
from sunkpy.runtime.settings import SlurmSettings
from tests.bench.burst.ground import CLUSTER
from tests.bench.holds import Hold
from tests.bench.ours import Ours
from tests.integration.slurm.daemons import free_ports
from tests.polling import until

_PATIENCE_S = 600.0
AUDIENCE = names.HOOKS_AUDIENCE
_POLL_S = 0.2  # no Prolog tells of starts


class Scheduler(Ours):
    """One that leads from the start, or stands by until the Lease `<cluster>-scheduler` is free."""

    def __init__(
        self, folder: Path, kubeconfig: Path, slurm: SlurmSettings, *, stands_by: bool = False, poll_s: float = 1.0
    ) -> None:
        (self._hooks,) = free_ports(1)
        settings = {
            "cluster": CLUSTER, "slurm": msgspec.to_builtins(slurm), "hooks": {"port": self._hooks},
            "access": [{"namespaces": ["*"], "partitions": ["*"]}], "defaultPartition": "low", "pollSeconds": poll_s,
        }  # fmt: skip
        super().__init__("scheduler", folder, kubeconfig, settings, stands_by=stands_by, is_watched=True)

    async def leads(self) -> None:
        """Wait until hooks are answered: all that is there has been adopted."""
        await until(self._answers, timeout_s=_PATIENCE_S, what="the scheduler leads")
        self.counts_from_s = time.monotonic()

    async def _answers(self) -> bool:
        with contextlib.suppress(aiohttp.ClientError):
            return await self.call("prolog", JobId(1), "nobody", token="none") != 503
        return False

    async def call(self, hook: str, job: JobId, node: str, *, token: str) -> int:
        """One question of a hook script; the HTTP status."""
        url, asked = f"http://127.0.0.1:{self._hooks}/hooks/v1/{hook}", {"job_id": job, "node": node}
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession() as session, session.post(url, json=asked, headers=headers) as answer:
            return answer.status


@contextlib.asynccontextmanager
async def scheduling(
    folder: Path, kubeconfig: Path, slurm: SlurmSettings, *, holds: list[Hold]
) -> AsyncIterator[Scheduler]:
    """A scheduler that leads while the block runs; `holds` gets how its loop was held meanwhile."""
    scheduler = Scheduler(folder, kubeconfig, slurm, poll_s=_POLL_S)
    try:
        await scheduler.leads()
        yield scheduler
    finally:
        holds += await scheduler.stop()
