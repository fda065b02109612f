"""The pages for people: all are linked, all links lead somewhere, and few sentences are long.

Each rule is checked for itself below, on text that breaks it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.docs.markdown import anchors, dead_links, linked_from, links, sentences, words

ROOT = Path(__file__).resolve().parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = [page for folder in ("devcluster", "tests") for page in sorted((ROOT / folder).rglob("*.md"))]
GENERATED = ROOT / "docs" / "reference"

LONG = 30
FRAGMENT = 4
LONG_AMONG_HUNDRED = 2


def long_sentences(texts: list[str]) -> tuple[list[str], int]:
    """Sentences of more than LONG words, and how many there are; shorter than FRAGMENT is none."""
    counted = [(words(each), each) for text in texts for each in sentences(text)]
    return [f"{n}: {each}" for n, each in counted if n > LONG], sum(n >= FRAGMENT for n, _ in counted)


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


def test_few_sentences_are_long():
    long, total = long_sentences([page.read_text() for page in PAGES if GENERATED not in page.parents])
    assert len(long) * 100 <= LONG_AMONG_HUNDRED * total, "\n".join(long)


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two\nlines! Three?", ["One.", "Two lines!", "Three?"]),
        ("* an item\n  on two lines\n* another", ["an item on two lines", "another"]),
        ("# A title\nText.", ["A title", "Text."]),
        ("| a | b. c |\n|---|---|\n| d | |", ["a", "b.", "c", "d"]),
        ("Text:\n\n    code. More code.\n\n```\nfenced. code.\n```\nMore.", ["Text:", "More."]),
        ("Set `a. b c` and see [this page](x.md).", ["Set code and see this page."]),
        ("Version 1.35 and x.y stay. So", ["Version 1.35 and x.y stay.", "So"]),
        ("(In brackets.) **Bold.** Next", ["(In brackets.)", "**Bold.**", "Next"]),
    ],
)
def test_sentences_are_those_of_the_text_between_code(text, expected):
    assert [each.strip() for each in sentences(text)] == expected


def test_words_are_counted_without_marks():
    assert words("A node's pods – all 3 of `x-y` – stay (not go).") == 10


def test_a_sentence_above_the_limit_is_found_and_a_fragment_is_not_counted():
    long = " ".join(["word"] * (LONG + 1))
    found, total = long_sentences([f"{long}. Three words only. Here are four words."])
    assert (found, total) == ([f"{LONG + 1}: {long}."], 2)
