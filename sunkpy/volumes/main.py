"""Entry of `sunkpy volumes`, which runs in each pod whose volumes it watches, without a Lease."""

from __future__ import annotations

import asyncio
import time

from sunkpy.runtime.process import Process, run
from sunkpy.runtime.settings import decode
from sunkpy.volumes.metrics import VolumesCollector
from sunkpy.volumes.settings import VolumesSettings


def main(text: str) -> None:
    """Serve metrics about volumes until a signal comes. `text`: the settings, as YAML or JSON.

    Raises:
        BadSettings: the settings cannot be used.
    """
    settings = decode(text.encode(), VolumesSettings, where="--settings")
    run("volumes", settings, lambda process: _body(process, settings))


async def _body(process: Process, settings: VolumesSettings) -> None:
    process.lead_alone()
    process.registry.register(VolumesCollector(settings, began=time.time()))
    await asyncio.Event().wait()
