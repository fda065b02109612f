"""What a release refuses, in which order it is made, and what its charts name."""

from __future__ import annotations

import datetime as dt
import shlex
import subprocess

import pytest
import yaml
from click.testing import CliRunner

from tests.unit.slurm_images.test_build import build as images
from tests.unit.tools.programs import ROOT, commit, load
from tests.unit.tools.releases import built
from tools import promises

CHANGELOG = "# Changelog\n\n## Unreleased\n\n### Added\n\n* Much.\n\n## 0.0.9 - 2026-01-01\n\n* Little.\n"
REGISTRY = ("--registry", "registry.example.com/sunkpy/")


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """The program, in a repository of its own where everything says 0.1.0; without cosign."""
    module = load("release")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module.shutil, "which", lambda _: None)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "sunkpy"\nversion = "0.1.0"\n')
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "sunkpy"\nversion = "0.1.0"\nsource = { editable = "." }\n')
    for chart in ("sunkpy", "slurm", "openldap"):
        (tmp_path / "charts" / chart).mkdir(parents=True)
        (tmp_path / "charts" / chart / "Chart.yaml").write_text("version: 0.1.0\nappVersion: 0.1.0\n")
    (tmp_path / "docs/reference").mkdir(parents=True)
    for page in promises.PAGES:
        (tmp_path / "docs/reference" / f"{page}.md").write_text("| `name` | means |\n")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / ".gitignore").write_text("build/\n")
    commit(tmp_path, "first")
    return module


def _run(tool, *arguments):
    return CliRunner().invoke(tool.main, arguments)


def _prepared(tool, version="0.2.0"):
    assert _run(tool, version, "--prepare").exit_code == 0
    commit(tool.ROOT, f"release: {version}")


def _tagged(tool, tag="v0.2.0"):
    _prepared(tool)
    subprocess.run(["git", "-C", tool.ROOT, "tag", tag], check=True)


def test_the_version_and_the_day_are_written_where_they_stand(tool):
    tool.prepare("0.2.0", dt.date(2026, 12, 1))
    assert (tool.ROOT / "CHANGELOG.md").read_text() == CHANGELOG.replace(
        "## Unreleased\n", "## Unreleased\n\n## 0.2.0 - 2026-12-01\n"
    )
    assert tool.changes("0.2.0") == "### Added\n\n* Much.\n"
    assert 'name = "sunkpy"\nversion = "0.2.0"\nsource' in (tool.ROOT / "uv.lock").read_text()
    assert (tool.ROOT / "charts/sunkpy/Chart.yaml").read_text() == "version: 0.2.0\nappVersion: 0.2.0\n"
    assert (tool.ROOT / "charts/slurm/Chart.yaml").read_text() == "version: 0.2.0\nappVersion: 0.1.0\n", "Slurm's"
    assert promises.released(tool.ROOT)["values"] == ["name"]


def test_in_this_repository_everything_says_one_version_and_the_changelog_what_is_unreleased():
    tool = load("release")
    assert len({tool._version_in(name, pattern)[1] for name, pattern in tool.VERSIONED}) == 1
    assert f"\n{tool.UNRELEASED}\n" in (ROOT / tool.CHANGELOG).read_text()


def _dirty(tool):
    _tagged(tool)
    (tool.ROOT / "pyproject.toml").write_text("")


def _other_version(tool):
    _tagged(tool)
    (tool.ROOT / "charts/slurm/Chart.yaml").write_text("version: 0.1.0\n")
    commit(tool.ROOT, "back")


def _unprepared(tool):
    _tagged(tool)
    (tool.ROOT / "CHANGELOG.md").write_text(CHANGELOG)
    commit(tool.ROOT, "back")


@pytest.mark.parametrize(
    ("before", "arguments", "says"),
    [
        (_tagged, ("two", *REGISTRY), "two is no version such as 0.2.0 or 0.2.0-rc.1"),
        (_tagged, ("0.2.0",), "say where images and charts go: --registry ghcr.io/you/sunkpy"),
        (_tagged, ("0.2.0", *REGISTRY), "say one of --sign KEY, --keyless, --unsigned and --dry-run"),
        (
            _tagged,
            ("0.2.0", *REGISTRY, "--sign", "k", "--unsigned"),
            "say one of --sign KEY, --keyless, --unsigned and --dry-run",
        ),
        (
            _tagged,
            ("0.2.0", *REGISTRY, "--keyless"),
            "to sign takes cosign on the PATH: https://docs.sigstore.dev/cosign; or say --unsigned",
        ),
        (
            _dirty,
            ("0.2.0", *REGISTRY, "--unsigned"),
            "there are changes that are not committed: commit them, or `git stash`",
        ),
        (
            _other_version,
            ("0.2.0", *REGISTRY, "--unsigned"),
            "this is not 0.2.0: charts/slurm/Chart.yaml says 0.1.0. "
            '`make release RELEASE="0.2.0 --prepare"` writes it everywhere; commit that',
        ),
        (
            _unprepared,
            ("0.2.0", *REGISTRY, "--unsigned"),
            "CHANGELOG.md has no section `## 0.2.0 - DATE`: "
            '`make release RELEASE="0.2.0 --prepare"` names and dates what is unreleased; commit that',
        ),
        (
            _prepared,
            ("0.2.0", *REGISTRY, "--unsigned"),
            "HEAD has no tag v0.2.0: `git tag v0.2.0` on the commit to release, or --dry-run",
        ),
        (
            _prepared,
            ("0.2.0", "--prepare"),
            "CHANGELOG.md has a section of 0.2.0 already: each version is released once",
        ),
    ],
)
def test_what_cannot_be_released_is_refused_before_anything_is_built(tool, before, arguments, says):
    before(tool)
    done = _run(tool, *arguments)
    assert (done.exit_code, done.output) == (1, f"Error: {says}\n")
    assert not (tool.ROOT / "build").exists()


def test_a_changelog_without_what_is_unreleased_is_refused(tool):
    (tool.ROOT / "CHANGELOG.md").write_text("# Changelog\n")
    assert _run(tool, "0.2.0", "--prepare").output == (
        "Error: CHANGELOG.md has no section `## Unreleased`: write there what changed since the last release\n"
    )


@pytest.fixture
def steps(tool, monkeypatch):
    """Steps that do nothing, unless `behave` has a function for one, and the names of steps that ran."""
    ran, behave = [], {}

    def step(name):
        return lambda _: (ran.append(name), behave.get(name, lambda: None)())

    monkeypatch.setattr(tool, "BUILD", {name: step(name) for name in tool.BUILD})
    monkeypatch.setattr(tool, "publish", lambda plan, signer: ran.append("publish"))
    return ran, behave


RELEASE = ("0.2.0", *REGISTRY, "--unsigned")


def test_a_run_that_failed_publishes_nothing_and_the_next_one_goes_on_there(tool, steps):
    ran, behave = steps
    _tagged(tool)
    behave["wheel"] = lambda: tool._call("false")
    done = _run(tool, *RELEASE)
    assert done.exit_code == 1
    assert "Error: `false` ended with code 1; what is done is kept: run this again once it is mended\n" in done.output
    assert ran == ["checks", "images", "sboms", "charts", "wheel"]
    ran.clear()
    behave.clear()
    assert _run(tool, *RELEASE).exit_code == 0
    assert ran == ["wheel", "changes", "checksums", "publish"]


def test_another_commit_is_built_from_the_beginning(tool, steps):
    ran, _ = steps
    _tagged(tool)
    _run(tool, *RELEASE)
    (tool.ROOT / "more").write_text("x")
    commit(tool.ROOT, "more")
    subprocess.run(["git", "-C", tool.ROOT, "tag", "-f", "v0.2.0"], check=True, capture_output=True)
    ran.clear()
    _run(tool, *RELEASE, "--skip-checks")
    assert ran == [*list(tool.BUILD)[1:], "publish"]


def test_each_slurm_has_values_of_its_own_and_shares_what_is_not_slurm(tool):
    numbers = {"slurmd trixie": 0, "slurmd sid": 1, "mariadb trixie": 2, "openldap trixie": 3, "sunkpy trixie": 4}
    plan = built(
        tool,
        "0.2.0",
        names=("slurmd",),
        suites=("trixie", "sid"),
        digest=lambda *image: f"sha256:{numbers[' '.join(image)]:064}",
    )
    assert tool.values_of(plan, "sid") == {
        "slurmd": f"r/slurmd:sid-000000000000@sha256:{1:064}",
        "mariadb": f"r/mariadb:trixie-000000000000@sha256:{2:064}",
        "openldap": f"r/openldap:trixie-000000000000@sha256:{3:064}",
        "sunkpy": f"r/sunkpy:0.2.0@sha256:{4:064}",
    }
    assert tool.values_of(plan, "trixie")["slurmd"] == f"r/slurmd:trixie-000000000000@sha256:{0:064}"


def test_charts_name_the_index_of_an_image_for_several_platforms(tool):
    plan = built(
        tool,
        "0.2.0",
        names=("slurmd",),
        suites=("trixie",),
        digest=lambda *_: f"sha256:{'a' * 64}",
        platforms=tool.PLATFORMS,
    )
    assert tool.values_of(plan, "trixie")["slurmd"] == f"r/slurmd:trixie-{'a' * 12}@sha256:{'a' * 64}"
    assert plan.layout.digest("slurmd_0.2.0-trixie_linux-arm64") == f"sha256:{'f' * 64}"


def test_the_checks_are_lint_and_then_all_tests(tool):
    (tool.ROOT / "Makefile").write_text("lint test:\n\t@echo $@ >> made\n")
    tool.check(None)
    assert (tool.ROOT / "made").read_text() == "lint\ntest\n"
    (tool.ROOT / "Makefile").write_text("lint:\n\t@true\ntest:\n\t@false\n")
    with pytest.raises(tool.Refused, match="`make test` ended with code 2"):
        tool.check(None)


def test_images_are_those_that_the_build_makes():
    tool = load("release")
    assert tool.SUITES == images.SUITES
    assert images.SHARED == tool.SHARED
    assert {f"linux/{each}" for each in images.MACHINES} == set(tool.PLATFORMS)


def test_the_charts_name_the_images_of_the_release_and_keep_all_else():
    tool = load("release")
    for chart in ("slurm", "openldap"):
        text = (ROOT / "charts" / chart / "values.yaml").read_text()
        before = yaml.safe_load(text)
        wanted = {name: f"r/{name}:1@sha256:ab" for name in before["images"]}
        filled = tool.with_images(text, wanted)
        assert yaml.safe_load(filled) == before | {"images": wanted}
        assert len(filled.splitlines()) == len(text.splitlines())
    text = (ROOT / "charts/sunkpy/values.yaml").read_text()
    assert yaml.safe_load(tool.with_image(text, "r/s:1")) == yaml.safe_load(text) | {"image": "r/s:1"}


@pytest.mark.parametrize(
    "values", ["images:\n  slurmd: {}\n", "replicas: 2\n", '\nimages:\n  slurmd: "x"\n  mariadb:\n']
)
def test_values_that_keep_an_empty_image_are_refused(values):
    tool = load("release")
    with pytest.raises(tool.Refused, match='for each image a line `  NAME: ""`'):
        tool.with_images(values, {})
    with pytest.raises(tool.Refused, match='no line `image: ""`'):
        tool.with_image(values, "r/s:1")


def test_the_workflow_of_the_forge_only_calls_it():
    flow = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())
    lines = [line for step in flow["jobs"]["release"]["steps"] for line in step.get("run", "").splitlines()]
    (call,) = [line for line in lines if line.startswith("make release ")]
    given = call.replace("${GITHUB_REF_NAME#v}", "0.2.0").replace("${REGISTRY,,}", "ghcr.io/you/sunkpy")
    (arguments,) = [word.removeprefix("RELEASE=") for word in shlex.split(given) if word.startswith("RELEASE=")]
    parsed = load("release").main.make_context("release", shlex.split(arguments)).params
    assert parsed["keyless"]
    assert parsed["version"] == "0.2.0"
    assert parsed["registry"] == "ghcr.io/you/sunkpy"
