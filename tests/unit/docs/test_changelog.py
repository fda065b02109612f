"""CHANGELOG.md is one list: what is unreleased, then a section for each release, and each line once."""

from __future__ import annotations

import re
from collections import Counter

from tests.unit.docs.source import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text()


def test_sections_are_what_is_unreleased_and_releases_with_their_day():
    first, *others = re.findall(r"^## (.+)$", TEXT, flags=re.MULTILINE)
    assert first == "Unreleased"
    assert [title for title in others if not re.fullmatch(r"\d+\.\d+\.\d+\S* - \d{4}-\d\d-\d\d", title)] == []
    assert re.findall(r"^# .+$", TEXT, flags=re.MULTILINE) == ["# Changelog"]


def test_no_line_of_a_section_stands_twice():
    for section in re.split(r"^## ", TEXT, flags=re.MULTILINE):
        lines = Counter(line for line in section.splitlines() if line.startswith(("* ", "### ")))
        assert [line for line, count in lines.items() if count > 1] == []
