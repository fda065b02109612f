"""The page that compares says of each need what each of the four does, and why ours does not."""

from __future__ import annotations

import re

import pytest

from tests.unit.docs.source import ROOT

PAGE = (ROOT / "docs/beside-others.md").read_text()
COMPARED = PAGE.partition("\n## Side by side\n")[2].partition("\n## Sources\n")[0]
LINES = [line for line in COMPARED.splitlines() if line.startswith("| ") and "| | |" not in line]
NEEDS = [line.strip("| ").split(" | ") for line in LINES if not line.startswith("| | sunkpy |")]


@pytest.mark.parametrize("row", NEEDS, ids=lambda row: row[0])
def test_a_need_has_a_cell_for_each_and_ours_says_why_not(row: list[str]):
    assert len(row) == 5
    assert all(row), "what nobody says is a question mark"
    if re.match(r"(no|none|in part)\b", row[1]):
        assert re.match(r"(no|none yet|in part): .", row[1]), "a reason, or a link to one"


def test_no_need_stands_twice():
    names = [row[0] for row in NEEDS]
    assert len(names) == len(set(names))
    assert len(names) > 60
