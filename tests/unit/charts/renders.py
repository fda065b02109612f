"""What helm made of the same files and values, kept between runs in a file of `$SUNKPY_CHECK_CACHE`, if that is set."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_DAYS: Final = 7
"""How long a text is kept that nobody asks for."""


@functools.cache
def digest(chart: Path) -> str:
    """Return a digest of all files of a chart."""
    files = sorted(path for path in chart.rglob("*") if path.is_file())
    return _digest(*(f"{path.relative_to(chart)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files))


def kept(made_of: tuple[str, ...], make: Callable[[], str]) -> str:
    """Return the text that `make` makes, from the file if it was made of the same before."""
    folder = os.environ.get("SUNKPY_CHECK_CACHE")
    if not folder:
        return make()
    key, now_s = _digest(*made_of), int(time.time())
    with _table(Path(folder)) as table:
        found = table.execute("UPDATE renders SET asked_s = ? WHERE key = ? RETURNING text", (now_s, key)).fetchone()
    if found:
        return zlib.decompress(found[0]).decode()
    text = make()
    with _table(Path(folder)) as table:
        table.execute("INSERT OR REPLACE INTO renders VALUES (?, ?, ?)", (key, zlib.compress(text.encode()), now_s))
        table.execute("DELETE FROM renders WHERE asked_s < ?", (now_s - _DAYS * 24 * 60 * 60,))
    return text


@contextlib.contextmanager
def _table(folder: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to the file, for one transaction; other test runs write there, too."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(folder / "renders.sqlite", timeout=60)) as table, table:
        table.execute("CREATE TABLE IF NOT EXISTS renders (key TEXT PRIMARY KEY, text BLOB, asked_s INTEGER)")
        yield table


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
