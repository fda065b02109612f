"""The pages for people: all are linked, and all links lead somewhere.

Each rule is checked for itself below, on text that breaks it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.docs.markdown import anchors, dead_links, linked_from, links

ROOT = Path(__file__).resolve().parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = [page for folder in ("devcluster", "tests") for page in sorted((ROOT / folder).rglob("*.md"))]


def test_every_page_of_the_docs_is_linked_from_another_one():
    linked = {target for page in PAGES for target in linked_from(page)}
    assert [page for page in PAGES if (ROOT / "docs") in page.parents and page not in linked] == []


def test_the_index_links_every_page_of_the_docs():
    index = ROOT / "docs" / "README.md"
    shown = linked_from(index) | {index}
    workloads = ROOT / "docs" / "workloads"  # has an index of its own
    shown |= linked_from(workloads / "README.md")
    assert [page for page in PAGES if (ROOT / "docs") in page.parents and page not in shown] == []


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert dead_links(page) == []


PAGE = """\
# A title: with `code`, and a [link](other.md)

See [here](other.md#two), [there](#again-1) and [outside](https://example.com/x#y).

```
# no heading, [no link](nowhere.md)
```

## Again
## Again
"""


def test_an_anchor_is_the_heading_without_its_marks_and_numbered_when_it_comes_again():
    assert anchors(PAGE) == {"a-title-with-code-and-a-link", "again", "again-1"}


def test_links_are_those_in_text_that_stay_in_the_repository():
    assert links(PAGE) == [("other.md", ""), ("other.md", "two"), ("", "again-1")]


@pytest.mark.parametrize(
    ("link", "is_dead"),
    [("other.md", False), ("other.md#two", False), ("#one", False), ("gone.md", True), ("other.md#no", True)],
)
def test_a_link_to_a_missing_page_or_heading_is_dead(tmp_path, link, is_dead):
    (tmp_path / "other.md").write_text("# Two\n")
    page = tmp_path / "page.md"
    page.write_text(f"# One\n\n[x]({link})\n")
    assert bool(dead_links(page)) == is_dead


def test_a_page_that_links_only_itself_is_not_linked(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("[x](page.md) [y](#one)")
    assert linked_from(page) == set()
