"""Keeps a fresh Slurm token in a file, for a process that people can reach and that must not have the cluster's key."""

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
    """Write a token for a Slurm user into the file every 30 s, each time whole or not at all. `times`: how often; None
    is for ever. `page_key`: a second file, for the key with which the web page signs its sessions.

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
