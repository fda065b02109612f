"""The crowd is one that the charts take, and what is measured of a release is what helm would keep."""

from __future__ import annotations

from pathlib import Path

from demo.person import Key
from tests.bench.people import releases


def test_both_charts_take_it_and_what_helm_keeps_is_measured(tmp_path: Path):
    figures = {figure.figure: figure for figure in releases.measure(Key(tmp_path / "key"), people=20, rounds=1)}
    assert all(figure.holds for figure in figures.values())
    kept = next(figure for name, figure in figures.items() if name.startswith("slurm") and "record" in name)
    assert 20_000 < kept.value < 400_000
