"""The pictures of docs/architecture.md are true: every name in them is where the tables say."""

from __future__ import annotations

import importlib
import operator
import re
from pathlib import Path

import pytest

from sunkpy.core import names
from tests.unit.docs import source

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "architecture.md").read_text()

PACKAGES = sorted(path.parent.name for path in (ROOT / "sunkpy").glob("*/__init__.py"))
MODULE_NAME = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)*:[\w.]+)`")
FILE_NAME = re.compile(r"`((?:charts|slurm-images|crds)/[\w./-]+)`")


def _pictures() -> dict[str, str]:
    """Heading to the lines of the picture below it."""
    parts = re.split(r"^#{2,3} (.+)$", TEXT, flags=re.MULTILINE)
    return {
        heading: "\n".join(line for line in text.splitlines() if line.startswith("    "))
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def _tables() -> dict[str, list[list[str]]]:
    """Heading of a picture to the cells of the table of its words."""
    found = re.findall(r"^\*\*(.+)\*\*\n\n\| in the picture \|.*\n.*\n((?:\|.*\n)+)", TEXT, flags=re.MULTILINE)
    return {
        heading: [[cell.strip() for cell in line.strip("|").split("|")] for line in rows.splitlines()]
        for heading, rows in found
    }


def test_the_page_begins_with_the_steps_of_each_process():
    _, *parts = re.split(r"^### The (.+)$", TEXT.split("\n## ")[1], flags=re.MULTILINE)
    processes = {path.parent.name for path in (ROOT / "sunkpy").glob("*/main.py")} | {"page"}
    assert {heading.removesuffix(" process").replace(" ", "") for heading in parts[::2]} == processes
    assert all("\n1. " in text for text in parts[1::2])


@pytest.mark.parametrize("name", sorted(set(MODULE_NAME.findall(TEXT))))
def test_every_name_is_in_the_module_that_the_page_names(name):
    module, _, attribute = name.partition(":")
    operator.attrgetter(attribute)(importlib.import_module(f"sunkpy.{module}"))


@pytest.mark.parametrize("path", sorted(set(FILE_NAME.findall(TEXT))))
def test_every_file_is_there(path):
    assert (ROOT / path).is_file()


@pytest.mark.parametrize("heading", _tables())
def test_what_a_table_explains_is_in_its_picture_and_in_the_code(heading: str):
    assert _tables()[heading], heading
    for name, code, *_ in _tables()[heading]:
        assert name.strip("`") in _pictures()[heading]
        assert MODULE_NAME.search(code) or FILE_NAME.search(code), f"{name}: where is it?"


def test_there_is_a_table_of_each_life_cycle():
    assert len(_tables()) == TEXT.count("| in the picture |") >= 4


def test_every_name_of_sunkpy_on_an_object_is_one_of_the_code():
    known = source.names_on_objects() | {names.READINESS_GATE}
    assert set(re.findall(r"sunkpy\.dev/[a-z-]+", TEXT)) - known == set()
