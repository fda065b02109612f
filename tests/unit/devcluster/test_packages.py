"""Debian packages are installed by one apt at a time."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devcluster import packages

APT = """\
#!/bin/sh
# Like apt: a second one fails while the first one runs.
mkdir {folder}/busy || exit 100
sleep 0.05
[ "$1" = update ] || {{ : > {folder}/tool; chmod +x {folder}/tool; }}
rmdir {folder}/busy
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs packages")
def test_two_clusters_that_begin_at_once_wait_for_each_others_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "apt-get").write_text(APT.format(folder=tmp_path))
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SUNKPY_CACHE", str(tmp_path / "cache"))
    install = lambda _: packages.ensure({"tool": "tool"}, progress=said.append)  # noqa: E731
    said: list[str] = []
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(install, range(4)))
    assert said == ["installing tool"]
