"""Where the minutes of a run go: `--minutes NAME` writes build/reports/minutes/NAME.json, `tools/minutes` prints them.

Of each file the seconds of its fixtures, of its tests, and the processor time of both: what is left of the tests is
waiting for somebody else, mostly for a daemon.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

_monotonic: Final = time.monotonic
"""Tests give `time` another clock."""
FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "reports" / "minutes"


class Spent(msgspec.Struct):
    """Seconds of one file: `work_s` is the processor time of this process and of the programs that it ended."""

    tests: int = 0
    fixtures_s: float = 0.0
    calls_s: float = 0.0
    work_s: float = 0.0
    tried_again: int = 0

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.fixtures_s + self.calls_s

    def add(self, other: Spent) -> None:
        """Add the times of another file to these."""
        self.tests += other.tests
        self.fixtures_s += other.fixtures_s
        self.calls_s += other.calls_s
        self.work_s += other.work_s
        self.tried_again += other.tried_again


class Part(msgspec.Struct):
    """One run of pytest. `seconds` is also what collecting costs."""

    seconds: float
    files: dict[str, Spent]


class Minutes:
    """The plugin: adds up what each file takes, and writes it at the end."""

    def __init__(self, name: str) -> None:
        self._name, self._begun = name, _monotonic()
        self._files: dict[str, Spent] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Fixtures that it is the first to want."""
        seconds, work = _now()
        try:
            return (yield)
        finally:
            self._add(item, Spent(fixtures_s=_now()[0] - seconds, work_s=_now()[1] - work))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """The test."""
        seconds, work = _now()
        try:
            return (yield)
        finally:
            self._add(item, Spent(tests=1, calls_s=_now()[0] - seconds, work_s=_now()[1] - work))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Fixtures that it is the last to want."""
        seconds, work = _now()
        try:
            return (yield)
        finally:
            self._add(item, Spent(fixtures_s=_now()[0] - seconds, work_s=_now()[1] - work))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """pytest-rerunfailures calls a test that it tries again by this outcome."""
        if report.outcome == "rerun":  # type: ignore[comparison-overlap]
            self._files.setdefault(report.nodeid.partition("::")[0], Spent()).tried_again += 1

    def pytest_sessionfinish(self) -> None:
        """What it was."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        part = Part(seconds=_monotonic() - self._begun, files=self._files)
        (FOLDER / f"{self._name}.json").write_bytes(msgspec.json.encode(part))

    def _add(self, item: pytest.Item, spent: Spent) -> None:
        self._files.setdefault(item.nodeid.partition("::")[0], Spent()).add(spent)


def _now() -> tuple[float, float]:
    """Seconds on the wall, and of processors."""
    return _monotonic(), sum(os.times()[:4])
