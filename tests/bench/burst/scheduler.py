"""Our scheduler as a process of its own, what it counts, and its hooks as the scripts of a node would call them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import aiohttp
import msgspec

from sunkpy.core import names
from sunkpy.core.model.states import JobId
from sunkpy.runtime.settings import SlurmSettings
from tests.bench.burst.ground import CLUSTER, NAMESPACE
from tests.bench.ground import spawn
from tests.bench.holds import Hold
from tests.bench.spent import Spent, spent
from tests.integration.slurm.daemons import free_ports
from tests.polling import until

_PATIENCE_S = 600.0
_POLL_S = 0.2  # no Prolog tells of starts


class Scheduler:
    """One that leads from the start, or stands by until the Lease `<cluster>-scheduler` is free."""

    def __init__(
        self, folder: Path, kubeconfig: Path, slurm: SlurmSettings, *, stands_by: bool = False, poll_s: float = 1.0
    ) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._http, self._hooks = free_ports(2)
        self.leads_since_s = math.inf
        settings: dict[str, object] = {
            "cluster": CLUSTER, "namespace": NAMESPACE, "slurm": msgspec.to_builtins(slurm),
            "http": {"port": self._http}, "hooks": {"port": self._hooks}, "leaderElection": {"enabled": stands_by},
            "access": [{"namespaces": ["*"], "partitions": ["*"]}], "defaultPartition": "low",
            "pollSeconds": poll_s,
        }  # fmt: skip
        config = folder / "scheduler.yaml"
        config.write_bytes(msgspec.yaml.encode(settings))
        argv = [sys.executable, "-m", "tests.bench.burst.watched", str(config), str(folder / "holds.json")]
        env = {"PATH": "/usr/bin:/bin", "KUBECONFIG": str(kubeconfig)}
        self.process = spawn(argv, log=folder / "scheduler.log", env=env)

    async def leads(self) -> None:
        """Wait until hooks are answered: all that is there has been adopted."""
        await until(self._answers, timeout_s=_PATIENCE_S, what="the scheduler leads")
        self.leads_since_s = time.monotonic()

    async def _answers(self) -> bool:
        with contextlib.suppress(aiohttp.ClientError):
            return await self.call("prolog", JobId(1), "nobody", token="none") != 503
        return False

    async def is_up(self) -> bool:
        """The process has started."""
        with contextlib.suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self._http}/healthz") as ok:
                return ok.status == HTTPStatus.OK
        return False

    async def call(self, hook: str, job: JobId, node: str, *, token: str) -> int:
        """One question of a hook script; the HTTP status."""
        url, asked = f"http://127.0.0.1:{self._hooks}/hooks/v1/{hook}", {"job_id": job, "node": node}
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession() as session, session.post(url, json=asked, headers=headers) as answer:
            return answer.status

    async def spent(self) -> Spent:
        """What it has used since its start."""
        return await spent(self._http)

    async def stop(self) -> list[Hold]:
        """End it; how its loop was held since it leads."""
        self.process.terminate()
        try:
            await asyncio.to_thread(self.process.wait, 20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        holds = self._folder / "holds.json"
        noted = msgspec.json.decode(holds.read_bytes(), type=list[Hold]) if holds.exists() else []
        return [hold for hold in noted if hold.at_s > self.leads_since_s]


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


AUDIENCE = names.HOOKS_AUDIENCE
