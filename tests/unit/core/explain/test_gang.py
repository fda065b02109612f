"""Each situation is explained word for word as in its file. A file that is not there is written, to be looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from sunkpy.core.explain.explanation import render
from tests.unit.core.explain.golden_file import written
from tests.unit.core.explain.situations import SITUATIONS

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation_is_explained(name):
    file, text = GOLDEN / f"{name}.txt", f"{render(SITUATIONS[name]())}\n"
    assert text == written(file, text)


def test_each_file_stands_for_a_situation():
    assert {file.stem for file in GOLDEN.iterdir()} == set(SITUATIONS)


def test_troubleshooting_shows_what_is_really_said():
    page = (Path(__file__).resolve().parents[4] / "docs" / "troubleshooting.md").read_text()
    shown = "".join(f"    {line}\n" if line else "\n" for line in (GOLDEN / "in-the-docs.txt").read_text().splitlines())
    assert shown in page
