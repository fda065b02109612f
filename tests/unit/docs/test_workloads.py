"""docs/workloads/ has a row for every family of workloads, and the examples that it names are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from sunkpy.core.gang.families import FAMILIES
from sunkpy.core.gang.job.options import OPTIONS
from sunkpy.core.gang.owners import kinds_read

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = sorted((DOCS / "workloads").glob("*.md"))
EXAMPLES = sorted((DOCS / "examples").glob("*.yaml"))


def test_every_kind_that_a_family_reads_is_in_a_row():
    rows = [line for page in PAGES for line in page.read_text().splitlines() if line.startswith("|")]
    assert {kind.kind for kind in kinds_read(FAMILIES) if not any(kind.kind in row for row in rows)} == set()


def test_the_index_names_every_page():
    index = (DOCS / "workloads" / "README.md").read_text()
    assert [page.name for page in PAGES if page.name != "README.md" and f"({page.name})" not in index] == []


def test_the_annotations_of_the_page_are_those_that_the_scheduler_reads():
    page = (DOCS / "workloads" / "asking-slurm.md").read_text()
    (sentence,) = re.findall(r"with annotations: (.*?)\. ", page, flags=re.DOTALL)
    assert re.findall(r"`(?:sunkpy\.dev/)?([^`]+)`", sentence) == list(OPTIONS)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_is_yaml_and_some_page_links_it(example):
    assert all(isinstance(part, dict) for part in yaml.safe_load_all(example.read_text()))
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    assert any(f"examples/{example.name}" in page.read_text() for page in pages)
