"""How long a pod and a job of sbatch wait until they have a node, one at a time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import msgspec

from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from tests.bench.burst.ground import WORKLOADS
from tests.bench.burst.load import Pods

PATIENCE_S = 60.0
"""What has no node by then counts as so long."""
DOORS = ("service", "pod", "sbatch")


class Doors(msgspec.Struct, frozen=True, kw_only=True):
    """Both doors of one cluster. `sbatch`: submits a small job; seconds until it runs, at most PATIENCE_S.

    `body`: a small pod of a name and a restartPolicy. `grace_s`: of its deletion; 0 where no kubelet lets go of it.
    """

    kube: Kube
    pods: Pods
    body: Callable[[str, str], dict[str, object]]
    sbatch: Callable[[str], Awaitable[float]]
    grace_s: int

    async def time(self, door: str, name: str) -> float:
        """Seconds until it has a node."""
        if door == "sbatch":
            return await self.sbatch(name)
        began_s = time.monotonic()
        await self.pods.create([self.body(name, "Always" if door == "service" else "Never")])
        try:
            await self.pods.until(lambda: name in self.pods.bound_s, what=f"{name} bound", timeout_s=PATIENCE_S)
            return self.pods.bound_s[name] - began_s
        except TimeoutError:
            return PATIENCE_S
        finally:
            await self.kube.delete(paths.pod(WORKLOADS, name), grace_period_s=self.grace_s)
            await self.pods.until(lambda: self.pods.get(name) is None, what=f"{name} gone", timeout_s=PATIENCE_S)
