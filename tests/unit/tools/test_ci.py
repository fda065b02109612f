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
for each in "$@"; do [[ $each != CLUSTER=* ]] || rm -r {folder}/clusters/"${{each#CLUSTER=}}"*; done
"""


@pytest.fixture
def run(tmp_path):
    """Runs CI; `leaves` is a word of the `make` that leaves a cluster. Returns the exit code, and for each `make` the
    cluster and the arguments.
    """

    def run(leaves="nothing"):
        for name, text in {"git": '#!/bin/bash\nmkdir -p "${@: -1}"\n', "make": MAKE.format(folder=tmp_path)}.items():
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        env = {
            **os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LEAVES": leaves,
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
