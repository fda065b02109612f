"""Finds the GPUs of this node: their device files, and their uuids from NVIDIA's driver."""

from __future__ import annotations

import re
from pathlib import Path

from sunkpy.core.gang.devices.handout import DeviceFile
from sunkpy.deviceplugin.settings import PluginSettings

_FILE = re.compile(r"nvidia\d+")


def find_gpus(settings: PluginSettings) -> tuple[DeviceFile, ...]:
    """Return the GPUs of the machine, by minor number. A GPU that fell off the bus is missing, or has no uuid."""
    if settings.pretend:
        return tuple(DeviceFile(file=f"{settings.dev}/sunkpy/gpu{at}") for at in range(settings.pretend))
    uuids = dict(_describe(path) for path in sorted(Path(settings.driver).glob("*/information")))
    files = [path.name for path in Path(settings.host + settings.dev).iterdir() if _FILE.fullmatch(path.name)]
    minors = sorted(int(name.removeprefix("nvidia")) for name in files)
    return tuple(DeviceFile(file=f"{settings.dev}/nvidia{minor}", uuid=uuids.get(str(minor), "")) for minor in minors)


def _describe(path: Path) -> tuple[str, str]:
    """Return minor number and uuid of a GPU from the driver's file: `Device Minor: 3`, `GPU UUID: GPU-…`. A uuid of
    question marks counts as none (see list-gpus in slurmd's image).
    """
    lines = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    uuid = lines.get("GPU UUID", "").strip()
    return lines.get("Device Minor", "").strip(), "" if "?" in uuid else uuid
