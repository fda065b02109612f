"""Releases of the last commit, prepared in a clone."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from demo.stack import ROOT
from devcluster.shell import run


def prepared(clone: Path) -> Path:
    """Clone the last commit, prepare and tag it. It has this repository's version, whose images are built already."""
    run(["git", "clone", "--quiet", str(ROOT), str(clone)])
    prepare(clone, version_of(clone))
    return clone


def prepare(clone: Path, version: str) -> None:
    """Make a commit with this version, and its tag."""
    run([sys.executable, "tools/release", version, "--prepare"], cwd=clone)
    git = ["git", "-C", str(clone), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    run([*git, "add", "."])
    run([*git, "commit", "--quiet", "--message", "release"])
    run([*git, "tag", f"v{version}"])


def version_of(clone: Path) -> str:
    """Return the version of the clone's charts."""
    return str(yaml.safe_load((clone / "charts/slurm/Chart.yaml").read_text())["version"])


def release(clone: Path, *options: str) -> str:
    """Run tools/release for the clone's version; return what it prints."""
    return run([sys.executable, "tools/release", version_of(clone), *options], cwd=clone, timeout_s=1100)
