"""What docs/versions.md promises is what code, charts and CRDs hold."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.unit.docs.source import ROOT
from tools import promises

PAGE = (ROOT / "docs/versions.md").read_text()
LIMITS = (ROOT / "docs/limits.md").read_text()


def test_names_that_a_release_has_promised_are_there_or_were_deprecated_and_removed():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert promises.broken(promises.released(ROOT), promises.names(ROOT), changelog) == []


def test_each_page_of_the_reference_promises_names():
    found = promises.names(ROOT)
    assert "images.slurmd" in found["values"]
    assert "sunkpy.dev/partition" in found["annotations"]
    assert "kubectl sunk explain" in " ".join(found["commands"])
    assert "sunkpy_leader" in found["metrics"]
    assert all(found.values())


DEPRECATED = "## 0.1.0 - 2026-12-01\n\n### Deprecated\n\n* `old`: use `new`.\n"


@pytest.mark.parametrize(
    ("changelog", "says"),
    [
        (
            "# Changelog\n\n## Unreleased\n\n### Removed\n\n* `old`.\n\n## 0.1.0 - 2026-12-01\n\n* `old` is new.\n",
            ["values: `old` is gone, and no release has it under `### Deprecated`: keep it for one more"],
        ),
        (
            f"# Changelog\n\n## Unreleased\n\n### Added\n\n* `old` is gone.\n\n{DEPRECATED}",
            ["values: `old` is gone: say so under `### Removed` of what is unreleased"],
        ),
        (f"# Changelog\n\n## Unreleased\n\n### Removed\n\n* `old`.\n\n{DEPRECATED}", []),
    ],
)
def test_a_name_goes_in_two_steps(changelog: str, says: list[str]):
    assert promises.broken({"values": ["old", "kept"]}, {"values": ["kept", "new"]}, changelog) == says


def test_a_release_records_its_names(tmp_path):
    folder = tmp_path / "docs/reference"
    folder.mkdir(parents=True)
    assert promises.released(tmp_path) == {}
    for page in promises.PAGES:
        (folder / f"{page}.md").write_text("| name | means |\n|---|---|\n| `b` | x |\n| `a` | x |\n| no code | x |\n")
    promises.record(tmp_path, "0.2.0")
    assert promises.released(tmp_path) == {page: ["a", "b"] for page in promises.PAGES}


def test_the_versions_of_the_crd_are_those_of_the_page():
    for file in (ROOT / "crds").glob("*.yaml"):
        for version in yaml.safe_load(file.read_text())["spec"]["versions"]:
            assert version["served"]
            said = f"`sunkpy.dev/{version['name']}` is served" + (" and stored" if version["storage"] else "")
            assert said in PAGE


def test_kubernetes_and_slurm_are_those_of_the_limits():
    section = LIMITS.partition("\n## Versions\n")[2]
    (oldest,) = re.findall(r"^\| Kubernetes \|.*\| (\S+) and newer", section, flags=re.MULTILINE)
    assert f"| Kubernetes | {oldest} and newer |" in PAGE
    ((first, last),) = re.findall(r"^\| Slurm \|.*\| (\S+) to (\S+),", section, flags=re.MULTILINE)
    assert f"| Slurm | {first} and {last}, as Debian has them |" in PAGE
