"""The two repositories of the example, on this machine: the charts, and what the site says of its clusters."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from demo.stack import ROOT
from devcluster.shell import run
from tests.doubles.apiserver import merged

EXAMPLE: Final = ROOT / "docs" / "examples" / "gitops"
TAG: Final = "v0.1.0"
_SERVER: Final = "https://git.example.com"
_REGISTRY: Final = "registry.example.com/sunkpy/"
_PERSON: Final = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")


class Repositories:
    """Bare repositories below `folder`, and a clone of the site's; `server` has them, where `file://` is not taken."""

    def __init__(self, folder: Path, images: Mapping[str, str], *, server: str = "") -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder = folder
        self._images = images
        self.site = folder / "site"
        charts = self._clone("sunkpy")
        for part in ("charts", "crds"):
            shutil.copytree(ROOT / part, charts / part, symlinks=True)
        _commit(charts, "charts")
        _git(charts, "tag", TAG)
        _git(charts, "push", "-q", "origin", "main", TAG)
        self._clone("site")
        shutil.copytree(EXAMPLE, self.site, dirs_exist_ok=True)
        for file in self.site.rglob("*.yaml"):
            file.write_text(file.read_text().replace(_SERVER, server or f"file://{folder}"))
        # The nodes are this machine, as in demo.bring_up.
        own = {"slurmConfig": {"cgroup": "disabled"}}
        self._write("sunkpy", self.values("sunkpy"))
        for name in ("staging", "production"):
            self._write(name, merged(self.values(name), own))
        self._push("as in the example")

    def add_charts(self) -> None:
        """The charts into the site's repository, as their packages hold them: without links."""
        shutil.copytree(ROOT / "charts", self.site / "charts")
        self._push("charts")

    def values(self, name: str) -> dict[str, Any]:
        """The values of a folder of the site."""
        values: dict[str, Any] = yaml.safe_load((self.site / name / "values.yaml").read_text())
        return values

    def push(self, name: str, values: Mapping[str, object], why: str) -> None:
        """Commit and push other values."""
        self._write(name, values)
        self._push(why)

    def revert(self) -> None:
        """Take the last commit back, and push."""
        _git(self.site, *_PERSON, "revert", "--no-edit", "HEAD")
        _git(self.site, "push", "-q", "origin", "main")

    def _push(self, why: str) -> None:
        _commit(self.site, why)
        _git(self.site, "push", "-q", "origin", "main")

    def _write(self, name: str, values: Mapping[str, object]) -> None:
        text = yaml.safe_dump(dict(values), sort_keys=False)
        for image, ref in self._images.items():
            text = text.replace(f"{_REGISTRY}{image}:TAG\n", f"{ref}\n")
        (self.site / name / "values.yaml").write_text(text)

    def _clone(self, name: str) -> Path:
        run(["git", "init", "-q", "--bare", "-b", "main", str(self.folder / f"{name}.git")])
        run(["git", "clone", "-q", str(self.folder / f"{name}.git"), str(self.folder / name)])
        return self.folder / name


def _git(folder: Path, *args: str) -> None:
    run(["git", "-C", str(folder), *args])


def _commit(folder: Path, why: str) -> None:
    _git(folder, "add", "-A")
    _git(folder, *_PERSON, "commit", "-q", "-m", why)
