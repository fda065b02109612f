"""Tests that compare manifests with their jobs run for those of the folder `$SUNKPY_MANIFESTS`, too."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from demo.stack import ROOT
from tests.manifests import OWN

MANIFEST = "armada/gang-pods.shape.yaml"
TESTS = ("tests/unit/core/gang/families/test_armada.py", "tests/unit/core/gang/families/test_lws.py")


@pytest.mark.parametrize(("pods", "result"), [(3, "PASSED"), (4, "FAILED")])
def test_a_further_folder_is_compared_with_its_own_jobs(tmp_path: Path, pods: int, result: str):
    (tmp_path / MANIFEST).parent.mkdir()
    shutil.copy(OWN / MANIFEST, tmp_path / MANIFEST)
    jobs = f"[{{count: 1, pods: {pods}, cpus: 3, mem_mib: 1024}}]"
    (tmp_path / "expected.yaml").write_text(f"- manifest: {MANIFEST}\n  jobs: {jobs}\n")
    pytest_ = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "base")]
    env = {**os.environ, "SUNKPY_MANIFESTS": str(tmp_path), "PYTEST_ADDOPTS": ""}
    done = subprocess.run([*pytest_, *TESTS], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    found = re.findall(r"(\w+)\.py::\S*\[\S*\b(own|further)\b\S* (\w+)", done.stdout)
    assert ("test_armada", "own", "PASSED") in found, done.stdout
    assert {each for each in found if each[1] == "further"} == {
        ("test_armada", "further", result),
        ("test_lws", "further", "SKIPPED"),
    }
