"""docs/workloads.md has a row for every family of workloads."""

from __future__ import annotations

from pathlib import Path

from sunkpy.core.gang.families import FAMILIES
from sunkpy.core.gang.owners import kinds_read

PAGE = Path(__file__).resolve().parents[3] / "docs" / "workloads.md"


def test_every_kind_that_a_family_reads_is_in_a_row():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    assert {kind.kind for kind in kinds_read(FAMILIES) if not any(kind.kind in row for row in rows)} == set()
