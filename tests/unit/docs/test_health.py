"""docs/tasks/health.md names each source and signal, and no others. Its example of a check drains nodes."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from sunkpy.core.health.known import KNOWN
from tests.unit.docs import source

PAGE = (source.ROOT / "docs" / "tasks" / "health.md").read_text()


def test_each_source_and_signal_is_on_the_page():
    table = PAGE.partition("| source |")[2].partition("\n\n")[0]
    rows = [row.split("|")[1:3] for row in table.splitlines()[2:]]
    found: dict[str, set[str]] = {}
    names: set[str] = set()
    for first, signals in rows:
        if first.strip():
            names = found.setdefault(re.findall(r"`(\w+)`", first)[0], set())
        names |= set(re.findall(r"`(\w+)`", signals))
    assert found == {name: set(rules) for name, rules in KNOWN.items()}


FAILED = """\
| Overall Health | Failure                                   |
| GPU            |                                           |
| -> 3           | Failure                                   |
|    -> Memory   | Failure: an uncorrectable error           |
"""
DRAINED = (
    "update nodename=n1 state=drain "
    "reason=dcgm: Overall Health Failure GPU 3 Failure Memory Failure: an uncorrectable error "
)


@pytest.mark.parametrize(
    ("report", "state", "told"),
    [
        (FAILED, "IDLE", [DRAINED]),
        (FAILED, "IDLE+DRAIN", []),
        ("| Overall Health | Healthy |", "IDLE", []),
        ("| Overall Health | Warning |", "IDLE", []),
        ("", "IDLE", []),
    ],
)
def test_the_example_of_dcgm_drains_a_node_with_a_failure(tmp_path, report, state, told):
    for name, does in {
        "check-node": "",
        "dcgmi": f"cat << 'EOF'\n{report}\nEOF",
        "scontrol": f'case $* in *show*) echo "NodeName=n1 State={state} x" ;; *) echo "$*" >> told ;; esac',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{does}\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURMD_NODENAME": "n1"}
    subprocess.run([source.ROOT / "docs/examples/check-dcgm"], env=env, cwd=tmp_path, check=True)
    file = tmp_path / "told"
    assert (file.read_text().splitlines() if file.exists() else []) == told
