"""A file with a fresh token of Slurm, for a process that people reach and that shall not have the key."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sunkpy.slurm.auth import MintedToken

_EVERY_S: Final = 30.0


def keep_token(
    key_file: Path,
    user: str,
    path: Path,
    *,
    page_key: Path | None = None,
    sleep: Callable[[float], None] = time.sleep,
    times: int | None = None,
) -> None:
    """Write a token for a Slurm user into a file again and again, whole or not at all. `times`: how often; without it
    for ever. `page_key`: also write the key with which the page signs its sessions.

    Raises:
        Unauthorized: the key cannot be read.
        OSError: the file cannot be written.
    """
    source, written = MintedToken(key_file, user=user), 0
    while times is None or written < times:
        _replace(path, source.token())
        if page_key:
            _replace(page_key, source.page_key())
        written += 1
        sleep(_EVERY_S)


def _replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)
