"""docs/ is a site without a dead link: properdocs builds it, strictly."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import site

ROOT = Path(__file__).resolve().parents[3]


def _build(repository: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "properdocs", "build", "--site-dir", str(folder)]
    return subprocess.run(argv, cwd=repository, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = _build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


def _places(nav: list[site.Entry]) -> list[str]:
    found = []
    for entry in nav:
        for title in (entry,) if isinstance(entry, str) else entry.values():
            found += [title] if isinstance(title, str) else _places(title)
    return found


def test_every_page_of_the_docs_is_in_the_navigation():
    pages = {page.relative_to(site.DOCS).as_posix() for page in site.DOCS.rglob("*.md")}
    places = _places(site.navigation(site.INDEX.read_text()))
    assert set(places) == pages


def test_sections_and_groups_of_the_index_are_those_of_the_navigation():
    index = "# Docs\n\n| [start](start.md) |\n\n## Tasks\n\n* Jobs: [MPI](tasks/mpi.md),\n  [the page](tasks/page.md)\n"
    assert site.navigation(index) == [
        {"Documentation": "README.md"},
        {"Questions": [{"Start": "start.md"}]},
        {"Tasks": [{"Jobs": [{"MPI": "tasks/mpi.md"}, {"The page": "tasks/page.md"}]}]},
    ]


def test_pages_are_found_by_their_words(built: Path):
    found = json.loads((built / "search/search_index.json").read_text())["docs"]
    assert any("sbatch" in each["text"] and each["location"].startswith("start.html") for each in found)


def test_links_that_leave_the_docs_lead_to_what_the_site_has(built: Path):
    start = (built / "start.html").read_text()
    (readme,) = set(re.findall(r'href="([^"]+)#install"', start))
    assert readme == "repository/index.html"
    assert 'id="install"' in (built / readme).read_text()
    assert (built / "repository/charts/slurm/values.yaml").read_bytes() == (
        ROOT / "charts/slurm/values.yaml"
    ).read_bytes()
    assert 'href="production/values.yaml"' in (built / "examples/gitops/index.html").read_text()


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("gone.md", "contains a link 'gone.md', but the target is not found among documentation files"),
        ("other.md#gone", "contains a link 'other.md#gone', but the doc 'other.md' does not contain an anchor '#gone'"),
    ],
)
def test_a_link_to_what_is_not_there_fails_the_build(tmp_path: Path, link: str, says: str):
    for name in ("properdocs.yml", "tools/site.py", "docs/site.css"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "docs/other.md").write_text("# Other\n")
    (tmp_path / "docs/README.md").write_text(f"# Docs\n\nSee [it]({link}) and [the other](other.md#other).\n")
    done = _build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert says in done.stderr
