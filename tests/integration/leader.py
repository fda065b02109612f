"""A process that leads and writes all the time: `python -m tests.integration.leader KUBECONFIG [stubborn]`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from sunkpy.kube import errors
from sunkpy.kube.client import Kube
from sunkpy.kube.lease import KubeLease
from sunkpy.runtime.process import Process, run
from sunkpy.runtime.settings import HttpSettings, LeaderElectionSettings, ProcessSettings

POD = "/api/v1/namespaces/d/pods/a"
LEASE_S = 6
"""A process that gets no processor for three quarters of it has lost it."""
SETTINGS = ProcessSettings(http=HttpSettings(port=0), leader_election=LeaderElectionSettings(duration_seconds=LEASE_S))


async def body(process: Process, kubeconfig: Path, *, is_stubborn: bool) -> None:
    """Lead; stubborn work goes on when it is cancelled."""
    async with (
        await Kube.connect(kubeconfig) as lock,
        await Kube.connect(kubeconfig, deadline=process.remaining_s) as kube,
    ):

        async def work() -> None:
            while True:
                try:
                    try:
                        await kube.patch(POD, {"metadata": {"labels": {"by": process.identity.name}}})
                    except errors.KubeError as error:
                        process.log.warning("not written", error=str(error))
                    await asyncio.sleep(0.02)
                except asyncio.CancelledError:
                    if not is_stubborn:
                        raise

        await process.lead(KubeLease(lock, namespace="d", name="leader"), work)


if __name__ == "__main__":
    path, *how = sys.argv[1:]
    run("leader", SETTINGS, lambda process: body(process, Path(path), is_stubborn=how == ["stubborn"]))
