"""What is kept of renders is what helm would say again."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.unit.charts import renders


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUNKPY_CHECK_CACHE", str(tmp_path / "checks"))
    return tmp_path / "checks"


@pytest.mark.usefixtures("folder")
def test_a_text_is_made_once_for_what_it_is_made_of():
    assert renders.kept(("chart", "values"), lambda: "first") == "first"
    assert renders.kept(("chart", "values"), lambda: "second") == "first"
    assert renders.kept(("chart", "other values"), lambda: "third") == "third"


def test_without_a_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SUNKPY_CHECK_CACHE", raising=False)
    assert [renders.kept(("chart",), lambda text=text: text) for text in ("first", "second")] == ["first", "second"]


def test_what_nobody_asks_for_goes(folder: Path):
    renders.kept(("old",), lambda: "old")
    with sqlite3.connect(folder / "renders.sqlite") as table:
        table.execute("UPDATE renders SET asked_s = asked_s - 8 * 24 * 60 * 60")
    renders.kept(("new",), lambda: "new")
    with sqlite3.connect(folder / "renders.sqlite") as table:
        assert table.execute("SELECT count(*) FROM renders").fetchone() == (1,)


def test_each_file_of_a_chart_counts(tmp_path: Path):
    digests = set()
    for number, (name, text) in enumerate((("a", "1"), ("a", "2"), ("b", "1"))):
        chart = tmp_path / str(number)
        chart.mkdir()
        (chart / name).write_text(text)
        digests.add(renders.digest(chart))
    assert len(digests) == 3
