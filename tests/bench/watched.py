"""Runs `sunkpy` as usual, in a process that records how long its event loop was held: `… NOTES COMMAND…`."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from sunkpy.cli import main
from tests.bench.holds import Hold, watch

if __name__ == "__main__":
    notes_file, noted = Path(sys.argv.pop(1)), list[Hold]()
    watch(noted.append)
    try:
        main()
    finally:
        notes_file.write_bytes(msgspec.json.encode(noted))
