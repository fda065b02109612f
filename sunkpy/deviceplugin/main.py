"""Runs the process of `sunkpy device-plugin`: reads the settings, connects, and serves the kubelet. Each node has one,
without a Lease.
"""

from __future__ import annotations

import os
from pathlib import Path

from sunkpy.deviceplugin.allocate import PluginAllocator
from sunkpy.deviceplugin.metrics import PluginMetrics
from sunkpy.deviceplugin.server import PluginServer
from sunkpy.deviceplugin.settings import PluginSettings
from sunkpy.kube.client import Kube
from sunkpy.runtime.process import Process, run
from sunkpy.runtime.settings import load


def main(config_path: Path) -> None:
    """Serve the kubelet until the process gets a signal to end.

    Raises:
        BadSettings: the settings file cannot be used.
    """
    settings = load(config_path, PluginSettings)
    run("device-plugin", settings, lambda process: _body(process, settings))


async def _body(process: Process, settings: PluginSettings) -> None:
    async with await Kube.connect() as kube:
        metrics = PluginMetrics(process.registry)
        allocator = PluginAllocator(kube, settings, node=os.environ["NODE_NAME"])
        await allocator.start()
        server = PluginServer(allocator, settings, metrics)
        process.add_ready_check("kubelet", server.explain_unready)
        await server.run()
