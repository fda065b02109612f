"""A file with a fresh token of Slurm, for a process that people reach and that shall not have the key."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sunkpy.slurm.auth import MintedToken

_EVERY_S: Final = 30.0


def keep_token(
    key_file: Path, user: str, path: Path, *, sleep: Callable[[float], None] = time.sleep, times: int | None = None
) -> None:
    """Write a token for a Slurm user again and again, whole or not at all; `times`: how often, else for ever.

    Raises:
        Unauthorized: the key cannot be read.
        OSError: the file cannot be written.
    """
    source, written = MintedToken(key_file, user=user), 0
    while times is None or written < times:
        fresh = path.with_suffix(".new")
        fresh.write_text(source.token())
        fresh.replace(path)
        written += 1
        sleep(_EVERY_S)
