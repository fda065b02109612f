"""Names of files and types hold to the words of CONTRIBUTING.md: no name has a word that its table rejects."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADER = "| not in a name | write |"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()

NOT_YET = {"Surroundings", "_Said"}
"""Names that are older than the table and have yet to change."""


def rejected_words(text: str) -> dict[str, str]:
    """Rejected word → what to write instead, from the table of a page."""
    _, _, table = text.partition(f"{HEADER}\n")
    words: dict[str, str] = {}
    for line in table.splitlines()[1:]:
        if not line.startswith("|"):
            break
        rejected, instead = (cell.strip() for cell in line.strip("|").split("|"))
        words |= dict.fromkeys(re.split(r",\s*", rejected), instead)
    return words


def words_of(name: str) -> list[str]:
    """The words of a name in snake_case or CamelCase, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def names_in(path: str, source: str) -> Iterator[tuple[str, str]]:
    """Each name of a file that the words hold for, with how to say where it is: the file itself, and its types."""
    for part in Path(path).with_suffix("").parts:
        yield part, path
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            yield node.name, f"{path}:{node.lineno} {node.name}"


def broken(sources: Iterable[tuple[str, str]], rejected: Mapping[str, str], *, but: Iterable[str] = ()) -> list[str]:
    """Where a name has a rejected word, and what to write; `but`: files and types that may."""
    return [
        f"{where}: not {word!r}, write {rejected[word]}"
        for path, source in sources
        for name, where in names_in(path, source)
        for word in words_of(name)
        if word in rejected and not {path if where == path else name} & set(but)
    ]


def test_no_file_and_no_type_has_a_rejected_word():
    files = sorted((ROOT / "sunkpy").rglob("*.py"))
    sources = [(str(file.relative_to(ROOT / "sunkpy")), file.read_text()) for file in files]
    assert broken(sources, rejected_words(CONTRIBUTING), but=NOT_YET) == []


def test_each_word_has_one_meaning_and_no_word_is_rejected_too():
    _, _, table = CONTRIBUTING.partition("| word | means |\n")
    rows = table.partition("\n\n")[0].splitlines()[1:]
    words = [word for row in rows for word in re.split(r",\s*", row.split("|")[1].strip())]
    assert sorted(words) == sorted(set(words))
    assert set(words) & set(rejected_words(CONTRIBUTING)) == set()


TABLE = f"{HEADER}\n|---|---|\n| utils, helpers | what it holds |\n| told | report |\n\n| other | table |\n"


def test_the_table_is_read():
    assert rejected_words(TABLE) == {"utils": "what it holds", "helpers": "what it holds", "told": "report"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("binding_note", ["binding", "note"]),
        ("_ReadableCluster", ["readable", "cluster"]),
        ("HTTPServer2", ["http", "server2"]),
        ("OwnerTold", ["owner", "told"]),
        ("__init__", ["init"]),
    ],
)
def test_a_name_is_split_into_words(name, words):
    assert words_of(name) == words


@pytest.mark.parametrize(
    ("path", "source", "found"),
    [
        ("core/told.py", "", ["core/told.py: not 'told', write report"]),
        ("core/utils/a.py", "", ["core/utils/a.py: not 'utils', write what it holds"]),
        ("core/a.py", "\nclass Told: ...", ["core/a.py:2 Told: not 'told', write report"]),
        (
            "core/a.py",
            "class A:\n    class HelpersOfIt: ...",
            ["core/a.py:2 HelpersOfIt: not 'helpers', write what it holds"],
        ),
        ("core/untold.py", "def told(): ...\ntold_by = 1", []),
    ],
)
def test_a_rejected_word_is_found(path, source, found):
    assert broken([(path, source)], rejected_words(TABLE)) == found


def test_a_name_that_may_stay_is_left_out():
    sources = [("core/told.py", "class Told: ..."), ("core/b.py", "class Told: ...")]
    assert broken(sources, rejected_words(TABLE), but={"Told"}) == ["core/told.py: not 'told', write report"]
    assert len(broken(sources, rejected_words(TABLE), but={"core/told.py"})) == 2
