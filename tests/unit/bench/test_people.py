"""The crowd is one that the charts take, and what is measured of a release is what helm would keep."""

from __future__ import annotations

from pathlib import Path

from demo.person import Key
from tests.bench.people import releases
from tests.bench.people.crowd import Crowd


def test_a_crowd_has_keys_as_long_as_real_ones_and_some_that_open(tmp_path: Path):
    key = Key(tmp_path / "key")
    people = Crowd(6, key, each=2).entries()["people"]
    assert isinstance(people, dict)
    keys = [person["sshKeys"][0] for person in people.values()]
    assert [each == key.public for each in keys] == [True, True, False, False, True, True]
    assert len({len(each) for each in keys}) == 1


def test_both_charts_take_it_and_one_more_makes_one_pod_anew(tmp_path: Path):
    figures = {figure.figure: figure for figure in releases.measure(Key(tmp_path / "key"), people=20, rounds=1)}
    assert all(figure.holds for figure in figures.values())
    (anew,) = (figure for name, figure in figures.items() if name.startswith("pods made anew"))
    assert anew.value == 1
    kept = next(figure for name, figure in figures.items() if name.startswith("slurm") and "record" in name)
    assert 20_000 < kept.value < 200_000
