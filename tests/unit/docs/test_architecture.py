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

MODULE_NAME = re.compile(r"`((?:cli|core|kube|operator|runtime|scheduler|slurm|syncer)(?:\.\w+)*:[\w.]+)`")
FILE_NAME = re.compile(r"`((?:charts|slurm-images|crds)/[\w./-]+)`")


def _sections() -> list[tuple[str, str]]:
    """(heading, text below it) of each section that has a picture with a table."""
    parts = re.split(r"^#{2,3} (.+)$", TEXT, flags=re.MULTILINE)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return [(heading, text) for heading, text in pairs if "| in the picture |" in text]


def _picture(section: str) -> str:
    return "\n".join(line for line in section.splitlines() if line.startswith("    "))


def _rows(section: str) -> list[list[str]]:
    """Cells of the rows of the table `in the picture`."""
    table = section.partition("| in the picture |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


@pytest.mark.parametrize("name", sorted(set(MODULE_NAME.findall(TEXT))))
def test_every_name_is_in_the_module_that_the_page_names(name):
    module, _, attribute = name.partition(":")
    operator.attrgetter(attribute)(importlib.import_module(f"sunkpy.{module}"))


@pytest.mark.parametrize("path", sorted(set(FILE_NAME.findall(TEXT))))
def test_every_file_is_there(path):
    assert (ROOT / path).is_file()


@pytest.mark.parametrize(("heading", "section"), _sections(), ids=[heading for heading, _ in _sections()])
def test_what_a_table_explains_is_in_its_picture_and_in_the_code(heading, section):
    assert _rows(section), heading
    picture = _picture(section)
    for name, code, *_ in _rows(section):
        assert name.strip("`") in picture
        assert MODULE_NAME.search(code) or FILE_NAME.search(code), f"{name}: where is it?"


def test_every_name_of_sunkpy_on_an_object_is_one_of_the_code():
    known = source.names_on_objects() | {names.READINESS_GATE}
    assert set(re.findall(r"sunkpy\.dev/[a-z-]+", TEXT)) - known == set()
