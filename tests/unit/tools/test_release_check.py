"""What is checked before a release names targets and benches that there are, and reports what came of it."""

from __future__ import annotations

import json
import re
import signal
import subprocess

import pytest
from click.testing import CliRunner

from tests.bench.__main__ import main as bench
from tests.unit.tools.programs import ROOT, commit, load


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """The program, in a repository of its own with one commit."""
    module = load("release-check")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "REPORTS", tmp_path / "build" / "reports" / "release")
    (tmp_path / "Makefile").write_text(
        "good:\n\t@echo $(SLURM_SUITE) was asked\nbad:\n\t@false\nclean-cluster:\n\t@true\n"
    )
    (tmp_path / ".gitignore").write_text("build/\n")
    commit(tmp_path, "first")
    return module


def _run(tool, *parts):
    return CliRunner().invoke(tool.main, parts)


def _report(tool, name):
    return json.loads((tool.REPORTS / f"{name}.json").read_text())


def test_each_part_is_a_target_of_the_makefile_and_a_bench_that_there_is(tool):
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, flags=re.MULTILINE))
    commands = [command for part in tool.PARTS.values() for command in part.commands]
    assert {command.split()[1] for command in commands} <= targets
    benches = [found for command in commands for found in re.findall(r'BENCH="(.*)"', command)]
    benches += re.findall(r"-m tests\.bench ([a-z].*)", makefile)
    assert benches
    asked = [bench.make_context("bench", arguments.split()).params for arguments in benches]
    assert [each["name"] for each in asked if not each["strict"]] == [], "passed, whatever their figures are"
    assert {each["only"] for each in asked if each["name"] == "gitops"} == {"", "flux"}, "it says both"


def test_virtual_machines_have_both_releases_of_slurm(tool):
    suites = {part.suite for part in tool.PARTS.values() if "machines" in " ".join(part.commands)}
    assert suites == {tool.SUITE, "sid"}


def test_what_the_parts_show_stands_in_one_column(tool):
    lines = _run(tool, "--list").output.splitlines()
    assert len({line.index(part.shows) for line, part in zip(lines, tool.PARTS.values(), strict=True)}) == 1


def test_a_report_names_the_commit_the_minutes_and_the_result(tool, monkeypatch):
    monkeypatch.setitem(tool.PARTS, "long", tool.Part("it holds", ("make good",), "sid"))
    assert _run(tool, "long").exit_code == 0
    head = subprocess.run(["git", "-C", tool.ROOT, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    assert _report(tool, "long") == {
        "part": "long",
        "shows": "it holds",
        "commit": head.strip(),
        "minutes": pytest.approx(0, abs=1),
        "result": "passed",
    }
    assert (tool.REPORTS / "long.log").read_text() == "sid was asked\n"


def test_a_part_that_fails_says_by_which_command(tool, monkeypatch):
    monkeypatch.setitem(tool.PARTS, "long", tool.Part("it does not hold", ("make good", "make bad", "make good")))
    assert _run(tool, "long").exit_code == 1
    assert _report(tool, "long")["result"] == "`make bad` ended with code 2"


def test_a_part_that_does_not_end_is_ended(tool, monkeypatch):
    monkeypatch.setattr(tool, "LIMIT_S", 0)
    monkeypatch.setitem(tool.PARTS, "long", tool.Part("it hangs", ("sleep 600",)))
    assert _run(tool, "long").exit_code == 1
    assert _report(tool, "long")["result"] == "`sleep 600` was ended after two hours"


def test_a_part_that_ignores_this_is_killed(tool, monkeypatch):
    monkeypatch.setattr(tool, "LIMIT_S", 0)
    monkeypatch.setattr(tool, "ENDING_S", 0.5)
    monkeypatch.setitem(tool.PARTS, "long", tool.Part("it hangs", ("sleep 600",)))
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what is started inherits that
    try:
        assert _run(tool, "long").exit_code == 1
    finally:
        signal.signal(signal.SIGTERM, before)
    assert _report(tool, "long")["result"].endswith("was killed after two hours: it did not end by itself")


def test_a_part_without_what_it_needs_is_left_out_unless_it_is_asked_for(tool, monkeypatch):
    parts = {"growth": tool.Part("it grows", ("make good",), needs="PROGRAM"), "long": tool.Part("", ("make good",))}
    monkeypatch.setattr(tool, "PARTS", parts)
    monkeypatch.delenv("PROGRAM", raising=False)
    done = _run(tool)
    assert done.exit_code == 0
    assert done.output.endswith("left out: growth needs PROGRAM\n")
    assert [_report(tool, name)["result"] for name in parts] == ["left out: needs PROGRAM", "passed"]
    asked = _run(tool, "growth")
    assert (asked.exit_code, asked.output) == (1, "Error: growth needs PROGRAM\n")
    monkeypatch.setenv("PROGRAM", "/bin/true")
    assert _run(tool, "growth").exit_code == 0
    assert _report(tool, "growth")["result"] == "passed"


def test_a_part_needs_the_variable_that_its_description_names(tool):
    named = {name: re.findall(r"[A-Z]+_[A-Z_]+", part.shows) for name, part in tool.PARTS.items()}
    assert named["source"] == ["SLURM_SOURCE"]
    assert named == {name: [part.needs] if part.needs else [] for name, part in tool.PARTS.items()}


def test_changes_that_are_not_committed_are_refused(tool):
    (tool.ROOT / "Makefile").write_text("")
    done = _run(tool, "long")
    assert done.exit_code == 1
    assert "changes that are not committed" in done.output
