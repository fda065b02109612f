"""A process of sunkpy, what it has used, and how long its event loop was held."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import msgspec

from sunkpy.core.model.states import JobId
from sunkpy.runtime.settings import SlurmSettings
from tests.bench.census import Spent, spent
from tests.bench.ground import PATIENCE_S, SLURM_CLUSTER
from tests.bench.holds import Hold
from tests.integration.apiserver import spawn
from tests.polling import until
from tests.ports import free_ports


class Ours:
    """`sunkpy <name>` in namespace slurm. It leads from the start; with `stands_by` it waits for its Lease."""

    def __init__(
        self,
        name: str,
        folder: Path,
        kubeconfig: Path,
        settings: Mapping[str, object],
        *,
        stands_by: bool = False,
        is_watched: bool = False,
    ) -> None:
        self.name = name
        self.counts_from_s = math.inf
        """Holds of the event loop before this time (monotonic) are left out."""
        (self._port,) = free_ports(1)
        folder.mkdir(parents=True, exist_ok=True)
        config, self._holds = folder / f"{name}.yaml", folder / f"{name}-holds.json"
        own = {"namespace": "slurm", "http": {"port": self._port}, "leaderElection": {"enabled": stands_by}}
        config.write_bytes(msgspec.yaml.encode({**own, **settings}))
        program = [sys.executable, "-m", "tests.bench.watched", str(self._holds)]
        argv = program if is_watched else [str(Path(sys.executable).with_name("sunkpy"))]
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": str(kubeconfig)}
        self.process = spawn([*argv, name, "--config", str(config)], log=folder / f"{name}.log", env=env)

    async def says(self, path: str) -> None:
        """Wait until the process answers `healthz` or `readyz` with 200."""

        url = f"http://127.0.0.1:{self._port}/{path}"

        async def is_said() -> bool:
            with contextlib.suppress(aiohttp.ClientError):
                async with aiohttp.ClientSession() as session, session.get(url) as answer:
                    return answer.status == 200
            return False

        await until(is_said, timeout_s=PATIENCE_S, what=f"{path} of {self.name}")

    async def spent(self) -> Spent:
        return await spent(self._port)

    async def stop(self) -> list[Hold]:
        """End the process. Return how its event loop was held since `counts_from_s`."""
        self.process.terminate()
        try:
            await asyncio.to_thread(self.process.wait, 20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        noted = msgspec.json.decode(self._holds.read_bytes(), type=list[Hold]) if self._holds.exists() else []
        return [hold for hold in noted if hold.at_s > self.counts_from_s]


@contextlib.asynccontextmanager
async def running(name: str, folder: Path, kubeconfig: Path, settings: Mapping[str, object]) -> AsyncIterator[Ours]:
    """Yield a process of sunkpy that is ready; it ends with the block."""
    process = Ours(name, folder, kubeconfig, settings)
    try:
        await process.says("readyz")
        yield process
    finally:
        await process.stop()


_POLL_S = 0.2  # short, because no Prolog reports that jobs start


def as_admin(slurm: SlurmSettings) -> SlurmSettings:
    return msgspec.structs.replace(slurm, user="slurm")


def syncer_settings(slurm: SlurmSettings) -> dict[str, object]:
    return {"cluster": SLURM_CLUSTER, "slurm": msgspec.to_builtins(as_admin(slurm))}


def scheduler_settings(slurm: SlurmSettings, *, hooks: int = 0) -> dict[str, object]:
    """Return the scheduler's settings as the chart writes them. `hooks`: the port for hooks; 0: any that is free."""
    return {
        "cluster": SLURM_CLUSTER, "slurm": msgspec.to_builtins(slurm), "hooks": {"port": hooks or free_ports(1)[0]},
        "access": [{"namespaces": ["*"], "partitions": ["*"]}], "defaultPartition": "low",
    }  # fmt: skip


class Scheduler(Ours):
    """A scheduler that leads from the start; with `stands_by` it waits for the Lease `<cluster>-scheduler`."""

    def __init__(
        self, folder: Path, kubeconfig: Path, slurm: SlurmSettings, *, stands_by: bool = False, poll_s: float = 1.0
    ) -> None:
        (self._hooks,) = free_ports(1)
        settings = {**scheduler_settings(slurm, hooks=self._hooks), "pollSeconds": poll_s}
        super().__init__("scheduler", folder, kubeconfig, settings, stands_by=stands_by, is_watched=True)

    async def leads(self) -> None:
        """Wait until the scheduler answers hooks: it has then adopted all existing pods and jobs."""
        await until(self._answers, timeout_s=PATIENCE_S, what="the scheduler leads")
        self.counts_from_s = time.monotonic()

    async def _answers(self) -> bool:
        with contextlib.suppress(aiohttp.ClientError):
            return await self.call("prolog", JobId(1), "nobody", token="none") != 503
        return False

    async def call(self, hook: str, job: JobId, node: str, *, token: str) -> int:
        """Make one call of a hook script. Return the HTTP status."""
        url, asked = f"http://127.0.0.1:{self._hooks}/hooks/v1/{hook}", {"job_id": job, "node": node}
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession() as session, session.post(url, json=asked, headers=headers) as answer:
            return answer.status


@contextlib.asynccontextmanager
async def scheduling(
    folder: Path, kubeconfig: Path, slurm: SlurmSettings, *, holds: list[Hold]
) -> AsyncIterator[Scheduler]:
    """Yield a scheduler that leads; at the end `holds` gets how its event loop was held."""
    scheduler = Scheduler(folder, kubeconfig, slurm, poll_s=_POLL_S)
    try:
        await scheduler.leads()
        yield scheduler
    finally:
        holds += await scheduler.stop()
