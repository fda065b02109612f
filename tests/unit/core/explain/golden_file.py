"""Texts that stand word for word in a file."""

from __future__ import annotations

from pathlib import Path

import pytest


def written(file: Path, text: str) -> str:
    """What the file says. One that is not there is written, to be looked at, and the test fails."""
    if not file.exists():
        file.write_text(text)
        pytest.fail(f"{file} was not there: see whether it says what it should")
    return file.read_text()
