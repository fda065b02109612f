"""CI has clusters of its own, and leaves none behind.

Here `git` and `make` are programs that write down what they get.
"""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from devcluster.layout import check_name
from tests.unit.tools.programs import ROOT

SUFFIXES = re.search(r"\$\(CLUSTER\)-{(.*)}", (ROOT / "Makefile").read_text()).group(1).split(",")
MAKE = """#!/bin/bash
echo "$CLUSTER $*" >> {folder}/made
[[ $* != *"$LEAVES"* ]] || mkdir -p {folder}/clusters/$CLUSTER-upgrade/nodes
[ "$*" != "--no-print-directory clean-cluster" ] || rm -rf {folder}/clusters/"$CLUSTER"*
[[ $* != *"$FAILS"* ]]
"""


@pytest.fixture
def run(tmp_path):
    """Runs CI; `leaves` and `fails` are words of the `make` that leaves a cluster, or fails. Returns the exit code, and
    for each `make` the cluster and the arguments.
    """

    def run(leaves="nothing", fails="nothing"):
        for name, text in {"git": '#!/bin/bash\nmkdir -p "${@: -1}"\n', "make": MAKE.format(folder=tmp_path)}.items():
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        env = {
            **os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LEAVES": leaves, "FAILS": fails,
            "SUNKPY_DEVCLUSTER_HOME": str(tmp_path / "clusters"),
        }  # fmt: skip
        done = subprocess.run([ROOT / ".ci" / "run"], env=env, capture_output=True, text=True)
        return done.returncode, [line.partition(" ") for line in (tmp_path / "made").read_text().splitlines()]

    return run


def test_all_of_a_run_is_on_clusters_of_its_own(run):
    code, made = run()
    assert code == 0
    assert {cluster for cluster, _, _ in made} == {"ci"}, "sunkpy is that of `make demo`"


def test_the_longest_name_of_a_cluster_can_be_used(run):
    (name, *_), *_ = run()[1]
    for suffix in SUFFIXES:
        check_name(f"{name}-{suffix}")


def test_a_cluster_that_a_run_leaves_fails_it(run):
    assert run(leaves="upgrade")[0] == 1


@pytest.mark.parametrize("part", ["build", "test", "chaos", "upgrade", "clean-cluster"])
def test_a_part_that_fails_fails_it(run, part):
    code, made = run(fails=part)
    assert code == 1
    assert any("clean-cluster" in arguments for _, _, arguments in made), "the machine is left clean all the same"
