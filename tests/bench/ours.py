"""A process of sunkpy, what it has used, and how long its event loop was held."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import msgspec

from tests.bench.holds import Hold
from tests.bench.spent import Spent, spent
from tests.integration.apiserver import spawn
from tests.integration.slurm.daemons import free_ports
from tests.polling import until

_PATIENCE_S = 600.0


class Ours:
    """`sunkpy <name>` in namespace slurm: it leads from the start, or stands by until its Lease is free."""

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
        """Monotonic: what held the loop of one that is watched before then is not told."""
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
        """Wait until it answers `healthz`, or `readyz`, with 200."""

        url = f"http://127.0.0.1:{self._port}/{path}"

        async def is_said() -> bool:
            with contextlib.suppress(aiohttp.ClientError):
                async with aiohttp.ClientSession() as session, session.get(url) as answer:
                    return answer.status == 200
            return False

        await until(is_said, timeout_s=_PATIENCE_S, what=f"{path} of {self.name}")

    async def spent(self) -> Spent:
        """What it has used since its start."""
        return await spent(self._port)

    async def stop(self) -> list[Hold]:
        """End it; how its loop was held since `counts_from_s`."""
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
    """A process of sunkpy, ready, while the block runs."""
    process = Ours(name, folder, kubeconfig, settings)
    try:
        await process.says("readyz")
        yield process
    finally:
        await process.stop()
