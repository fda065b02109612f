import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from demo.report import Report, StepFailed, Tell


def _report(path: Path) -> tuple[Report, io.StringIO]:
    out, clock = io.StringIO(), iter(range(100))
    return Report(path, Console(file=out, width=200), clock_s=lambda: float(next(clock))), out


def _two_lines(tell: Tell) -> str:
    tell("a pod came [really]")
    return "1 pod"


def _breaks(tell: Tell) -> str:
    raise ValueError("the pod is on node-2")


def test_each_step_is_told_and_kept_with_its_time(tmp_path: Path) -> None:
    report, out = _report(tmp_path / "reports" / "demo.json")
    report.run("2 pods", _two_lines)
    kept = json.loads((tmp_path / "reports" / "demo.json").read_text())
    assert kept == [{"step": "2 pods", "ok": True, "seconds": 2.0, "detail": "1 pod"}]
    assert "a pod came [really]" in out.getvalue()
    assert "ok  2 pods: 1 pod (2.0 s)" in out.getvalue()


def test_a_step_that_fails_is_kept_and_stops_the_story(tmp_path: Path) -> None:
    report, out = _report(tmp_path / "demo.json")
    report.run("1 first", _two_lines)
    with pytest.raises(StepFailed, match="2 pods: the pod is on node-2"):
        report.run("2 pods", _breaks)
    kept = json.loads((tmp_path / "demo.json").read_text())
    assert [(step["ok"], step["detail"]) for step in kept] == [(True, "1 pod"), (False, "the pod is on node-2")]
    assert "FAILED  2 pods" in out.getvalue()


def test_without_a_terminal_there_are_only_plain_lines(tmp_path: Path) -> None:
    report, out = _report(tmp_path / "demo.json")
    report.run("1 first", _two_lines)
    assert "\x1b" not in out.getvalue()
    assert out.getvalue().splitlines()[0] == "== 1 first"
