"""docs/tasks/health.md names each source and each of its signals, and no others."""

from __future__ import annotations

import re

from sunkpy.core.health.known import KNOWN
from tests.unit.docs import source

PAGE = (source.ROOT / "docs" / "tasks" / "health.md").read_text()


def test_each_source_and_signal_is_on_the_page():
    table = PAGE.partition("| source |")[2].partition("\n\n")[0]
    rows = [row.split("|")[1:3] for row in table.splitlines()[2:]]
    found: dict[str, set[str]] = {}
    names: set[str] = set()
    for first, signals in rows:
        if first.strip():
            names = found.setdefault(re.findall(r"`(\w+)`", first)[0], set())
        names |= set(re.findall(r"`(\w+)`", signals))
    assert found == {name: set(rules) for name, rules in KNOWN.items()}
