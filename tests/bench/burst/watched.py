"""The scheduler as it is, in a process that notes how long its event loop was held: `… CONFIG NOTES`."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from sunkpy.scheduler.main import main
from tests.bench.holds import Hold, watch

if __name__ == "__main__":
    config, notes_file = map(Path, sys.argv[1:])
    noted: list[Hold] = []
    watch(noted.append)
    try:
        main(config)
    finally:
        notes_file.write_bytes(msgspec.json.encode(noted))
