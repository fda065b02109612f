"""Test runs that begin at the same time do not disturb each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import roots

NO_PROCESS = 1 << 30


def test_what_a_killed_run_left_goes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(roots, "WRITTEN", tmp_path / "written")
    monkeypatch.setattr(roots, "LAYERS", tmp_path / "layers")
    roots.LAYERS.mkdir()
    for number in range(500):
        (roots.WRITTEN / f"{NO_PROCESS}-a" / "upper" / str(number)).mkdir(parents=True)
    (roots.WRITTEN / "1-b").mkdir()
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(roots.forget_the_dead) for _ in range(4)]
    assert [run.exception() for run in runs] == [None] * 4
    assert [each.name for each in roots.WRITTEN.iterdir()] == ["1-b"], "process 1 lives"
