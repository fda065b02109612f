"""What docs/troubleshooting.md tells people to look for is what the code says, and what Slurm says."""

from __future__ import annotations

import ast
import re

import pytest

from tests.unit.docs import source

PAGE = (source.ROOT / "docs" / "troubleshooting.md").read_text()
PLACEHOLDER = re.compile(r"…|[:;,()]|\b[A-Z]\b|\bNAME\b|\bp\b")
OF_SLURM = {"Job dependency problem", "Epilog error", "Prolog error", "Duplicate jobid"}
BY_PARTS = {"sunkpy gate", "sunkpy prolog", "sunkpy epilog"}
"""Made of a prefix and the name of a hook."""


def _said() -> str:
    """Every text in the code, with a NUL for each value that is put in; scripts and templates as they are."""
    found: list[str] = []
    for node in (node for tree in source.TREES for node in ast.walk(tree)):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(v.value if isinstance(v, ast.Constant) else "\0" for v in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    files = [file for folder in ("charts", "slurm-images") for file in sorted((source.ROOT / folder).rglob("*"))]
    return "\n".join([*found, *(f.read_text() for f in files if f.suffix in (".tpl", ".yaml", ".py", ".sh", ".lua"))])


SAID = _said()


def _quoted(title: str) -> set[str]:
    """The texts in the first column of the tables with this title, in pieces of two words or more."""
    tables = re.findall(rf"^\| {title} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, flags=re.MULTILINE)
    cells = [line.split(" | ")[0] for table in tables for line in table.splitlines()]
    pieces = (
        piece.strip() for cell in cells for text in re.findall(r"`([^`]+)`", cell) for piece in PLACEHOLDER.split(text)
    )
    return {piece for piece in pieces if " " in piece}


@pytest.mark.parametrize("piece", sorted(_quoted("text") | _quoted("reason")))
def test_a_quoted_text_is_one_of_the_code_or_of_slurm(piece):
    assert piece in SAID or piece in OF_SLURM | BY_PARTS


@pytest.mark.parametrize("piece", sorted(BY_PARTS))
def test_the_name_of_a_hook_stands_in_its_reason(piece):
    assert piece.split()[1] in SAID


def test_there_are_texts_to_check():
    assert len(_quoted("text")) > 10
    assert len(_quoted("reason")) > 5
