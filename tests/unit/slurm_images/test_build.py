"""The tool that builds the images: tags and archives."""

from __future__ import annotations

import argparse
import hashlib
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import shutil
import sys
import tarfile
import tomllib
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import pytest

from devcluster import packages

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "slurm-images" / "build"


def _load() -> object:
    loader = importlib.machinery.SourceFileLoader("slurm_images_build", str(PROGRAM))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


build = _load()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "start").write_text("one")
    (tmp_path / "Dockerfile").write_text("FROM scratch")
    return tmp_path


def test_the_demo_installs_what_this_tool_runs():
    assert build.TOOLS == packages.FOR_IMAGES


def tag(tree: Path, **kwargs: str) -> str:
    return build.fingerprint((tree / "bin", tree / "Dockerfile"), root=tree, **kwargs)


def test_the_same_files_have_the_same_tag_wherever_they_are(tree: Path, tmp_path_factory: pytest.TempPathFactory):
    other = tmp_path_factory.mktemp("other")
    (other / "bin").mkdir()
    (other / "Dockerfile").write_text("FROM scratch")
    (other / "bin" / "start").write_text("one")
    (other / "bin" / "__pycache__").mkdir()
    (other / "bin" / "__pycache__" / "x.pyc").write_text("noise")
    assert tag(tree) == tag(other)


def test_content_name_mode_and_suite_change_the_tag(tree: Path):
    tags = [tag(tree), tag(tree, salt="sid")]
    (tree / "bin" / "start").chmod(0o755)
    tags.append(tag(tree))
    (tree / "bin" / "start").write_text("two")
    tags.append(tag(tree))
    (tree / "bin" / "start").rename(tree / "bin" / "begin")
    tags.append(tag(tree))
    assert len(set(tags)) == len(tags)


def test_a_suite_has_its_own_slurm_and_the_same_sunkpy():
    trixie, sid = build.slurm_group(build.Choice("trixie")), build.slurm_group(build.Choice("sid"))
    assert trixie.tag != sid.tag
    assert trixie.ref("slurmd").startswith("docker.io/sunkpy/slurmd:trixie-")
    assert build.sunkpy_group() == build.sunkpy_group()


def test_a_changed_script_of_slurm_leaves_the_database_as_it_is():
    slurm = {path.name for path in build.slurm_group(build.Choice("sid")).inputs}
    mariadb = {path.name for path in build.mariadb_group().inputs}
    assert {"start-slurmdbd", "start-slurmd", "Dockerfile"} <= slurm
    shared = {"install-packages", "write-sbom"}
    backup = {"backup-mariadb", "copy-backup", "restore-mariadb"}
    assert {"start-mariadb", "mariadb.Dockerfile", *backup} == mariadb - shared
    openldap = {path.name for path in build.openldap_group().inputs}
    assert {"start-openldap", "fill-openldap", "openldap.Dockerfile"} == openldap - shared
    assert slurm & mariadb == {*shared, "copy-backup"}
    assert slurm & openldap == shared


DOCKERFILE = """\
ARG SUITE=trixie
# What all have.
FROM debian:${SUITE} AS slurm
RUN a && \\
      b
FROM slurm AS one
COPY bin/first bin/second \\
     bin/third /usr/bin/
FROM slurm AS two
COPY --from=one /usr/bin/first /usr/bin/
COPY etc/own /etc/
"""


def test_stages_are_read_with_what_they_copy():
    stages = build.read_stages(DOCKERFILE)
    assert {name: (stage.base, stage.copied) for name, stage in stages.items()} == {
        "slurm": ("debian:${SUITE}", []),
        "one": ("slurm", ["bin/first", "bin/second", "bin/third"]),
        "two": ("slurm", ["etc/own"]),
    }
    assert stages["two"].taken_from == ["one"]
    assert build.read_stages(DOCKERFILE.replace("# What all have.", "# What each has.")) == stages


@pytest.mark.parametrize(
    ("change", "renamed"),
    [
        (lambda tree: (tree / "bin/start-sssd").write_text("#!/bin/bash\n"), {"sssd"}),
        (lambda tree: (tree / "bin/motd.sh").write_text("echo hello\n"), {"login"}),
        (lambda tree: (tree / "bin/ssh-keys-of").write_text("#!/bin/bash\n"), {"login", "slurmd"}),
        (lambda tree: (tree / "spank/containers.c").write_text("int x;\n"), {"login", "slurmd"}),
        (lambda tree: (tree / "etc/nsswitch.conf").write_text("passwd: files\n"), None),
    ],
)
def test_only_images_that_have_what_changed_get_a_new_tag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object], renamed: set[str] | None
):
    """Pods whose image gets another tag are replaced, and slurmd pods drain for that."""
    tree = tmp_path / "slurm-images"
    shutil.copytree(build.HERE, tree)
    monkeypatch.setattr(build, "HERE", tree)
    before = build.slurm_group(build.Choice("trixie"))
    change(tree)
    after = build.slurm_group(build.Choice("trixie"))
    assert {name for name in after.targets if after.ref(name) != before.ref(name)} == (renamed or set(after.targets))
    assert after.archive != before.archive


def test_lean_images_are_those_two_under_tags_of_their_own():
    full, lean = build.slurm_group(build.Choice("sid")), build.slurm_group(build.Choice("sid"), lean=True)
    assert set(lean.targets) == {"slurmd", "login"}
    assert lean.ref("slurmd").startswith("docker.io/sunkpy/slurmd:sid-lean-")
    assert lean.archive != full.archive
    assert full.arguments == {"SUITE": "sid", "USERLAND": "userland"}
    assert lean.arguments == {"SUITE": "sid", "USERLAND": "slurm"}


@pytest.mark.parametrize(
    ("name", "older"),
    [
        ("slurm-trixie-0123456789ab", True),
        ("slurm-trixie-ba9876543210", False),
        ("slurm-trixie-lean-0123456789ab", False),
        ("slurm-sid-0123456789ab", False),
    ],
)
def test_a_build_replaces_images_of_its_own_kind_alone(name: str, older: bool):
    assert build.is_older(name, "slurm-trixie-ba9876543210") == older


def test_images_for_another_architecture_share_no_name_with_those_of_this_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(build.platform, "machine", lambda: "x86_64")
    for make in build.GROUPS.values():
        own = make(build.Choice("trixie"))
        assert build.for_architecture(own, "") == build.for_architecture(own, "amd64") == own
        other = build.for_architecture(own, "arm64")
        assert other.archive.name == f"{own.name}-{own.version}-arm64-{own.fingerprint}.tar"
        assert not build.is_older(own.archive.stem, other.archive.stem)
        for image in own.targets:
            assert other.ref(image) == own.ref(image).replace(own.version, f"{own.version}-arm64")
            assert not build.is_older(own.ref(image), other.ref(image))
        assert other.base.tar != own.base.tar
        assert other.base.ref != own.base.ref


def test_no_image_begins_with_one_that_somebody_else_may_move():
    """The bases are made here, of packages that Debian signs; buildah asks no registry for a name below localhost."""
    for group in build.GROUPS.values():
        for suite, architecture in (("trixie", ""), ("sid", ""), ("trixie", "arm64")):
            assert build.for_architecture(group(build.Choice(suite)), architecture).base.ref.startswith("localhost/")


def test_what_builds_the_package_is_locked_with_all_that_it_needs():
    """The image and a release take the backend from the lock file, by hash; uv has a version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["build-system"]["requires"] == project["dependency-groups"]["build"]
    locked = {each["name"]: each for each in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
    assert project["dependency-groups"]["build"] == [f"hatchling=={locked['hatchling']['version']}"]
    for name in ("hatchling", *(each["name"] for each in locked["hatchling"]["dependencies"])):
        assert all("sha256:" in wheel["hash"] for wheel in locked[name]["wheels"]), name
    recipes = "".join(file.read_text() for file in (ROOT / "slurm-images").glob("*Dockerfile"))
    assert "uv sync --frozen --inexact --only-group build\n" in recipes
    assert '"--only-group", "build"' in (ROOT / "tools/release").read_text()
    first, own = (words.split() for words in re.findall(r"pip install (.*)", recipes))
    (uv,) = (word for word in first if not word.startswith("-"))
    assert uv.startswith("uv==")
    assert uv in (ROOT / "tools/bootstrap").read_text()
    assert {"--no-deps", "--no-index", "--no-build-isolation"} < set(own)


def test_an_image_with_a_mended_package_is_another_image():
    """Whoever pins a tag pins what is in it."""
    ref = "docker.io/sunkpy/slurmd:trixie-0123456789ab"
    one, same, mended = (
        build.final_ref(ref, packages)
        for packages in (
            {"git": "1:2.47", "libssl3t64": "3.5.1-1"},
            {"libssl3t64": "3.5.1-1", "git": "1:2.47"},
            {"git": "1:2.47", "libssl3t64": "3.5.1-1+deb13u1"},
        )
    )
    assert one == same != mended
    assert mended.startswith("docker.io/sunkpy/slurmd:trixie-")
    assert build.final_ref(ref.replace("b", "c"), {}) != build.final_ref(ref, {})


CHANGELOG = """\
openssl (3.5.1-1+deb13u1) trixie-security; urgency=medium

  * CVE-2025-9230 (Out-of-bounds read), CVE-2025-9231

 -- A <a@debian.org>  Sat, 27 Sep 2025 10:00:00 +0200

openssl (1:3.5.1-1) unstable; urgency=medium

  * New version. (CVE-2025-4575)

openssl (3.5.0-2) unstable; urgency=medium

  * CVE-2024-1
"""

POLICY = """\
libssl3t64:
  Installed: (none)
  Candidate: 3.5.1-1+deb13u1
  Version table:
     3.5.1-1+deb13u1 500
        500 http://deb.debian.org/debian-security trixie-security/main amd64 Packages
     3.5.1-1 500
        500 http://deb.debian.org/debian trixie/main amd64 Packages
tini:
  Installed: 0.19.0-3
  Candidate: 0.19.0-3
  Version table:
 *** 0.19.0-3 500
gone:
  Installed: (none)
  Candidate: (none)
  Version table:
"""


def test_an_update_of_debian_is_named_with_both_versions():
    newest = build.candidates(POLICY)
    assert newest == {"libssl3t64": "3.5.1-1+deb13u1", "tini": "0.19.0-3"}
    packages = {"libssl3t64": "3.5.1-1", "tini": "0.19.0-3", "gone": "1", "aiohttp": "3.13"}
    changelogs = {"libssl3t64": CHANGELOG}
    line = "images:   libssl3t64 3.5.1-1 -> 3.5.1-1+deb13u1"
    assert build.updates(packages, newest, changelogs) == [f"{line}  CVE-2025-9230, CVE-2025-9231"]
    assert build.updates(packages, newest, {}) == [f"{line}  changelog unknown"]


@pytest.mark.parametrize(
    ("held", "mended"),
    [
        ("3.5.1-1", "CVE-2025-9230, CVE-2025-9231"),
        ("1:3.5.1-1+b2", "CVE-2025-9230, CVE-2025-9231"),
        ("3.5.1-1+deb13u1", ""),
        ("3.5.0-2", "CVE-2025-4575, CVE-2025-9230, CVE-2025-9231"),
        ("3.4.0-1", "changelog unknown"),
    ],
)
def test_vulnerabilities_that_an_update_mends_are_those_of_newer_entries(held: str, mended: str):
    assert build.vulnerabilities(CHANGELOG, held) == mended


def _archive(group: object) -> None:
    """One of images that hold nothing."""
    with tarfile.open(group.archive, "w") as tar:
        text = json.dumps([{"Config": "x", "RepoTags": [group.ref(name)], "Layers": []} for name in group.targets])
        info = tarfile.TarInfo("manifest.json")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text.encode()))


def test_images_that_every_suite_shares_are_recorded_for_every_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(build, "OUT", tmp_path)
    for suite, group in (("trixie", build.slurm_group(build.Choice("trixie"))), ("sid", build.mariadb_group())):
        _archive(group)
        build.record(suite, [group])
    recorded = json.loads((tmp_path / "images.json").read_text())
    assert recorded["trixie"]["mariadb"] == recorded["sid"]["mariadb"]
    assert recorded["trixie"].keys() == {"slurmctld", "slurmdbd", "slurmrestd", "slurmd", "login", "sssd", "mariadb"}


def test_images_for_another_architecture_are_recorded_in_a_list_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(build, "OUT", tmp_path)
    monkeypatch.setattr(build.platform, "machine", lambda: "x86_64")
    mariadb = build.mariadb_group()
    for group in (mariadb, build.for_architecture(mariadb, "arm64")):
        _archive(group)
        build.record("trixie", [group])
    own, other = (json.loads((tmp_path / f"images{name}.json").read_text()) for name in ("", "-arm64"))
    assert own["trixie"]["mariadb"]["ref"] == mariadb.ref("mariadb")
    assert other["trixie"]["mariadb"]["ref"] == build.for_architecture(mariadb, "arm64").ref("mariadb")


def test_an_archive_that_another_checkout_has_made_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(build, "KEPT", tmp_path / "kept")
    group = build.mariadb_group()
    monkeypatch.setattr(build, "OUT", tmp_path)
    _archive(group)
    build._keep(group)
    monkeypatch.setattr(build, "OUT", tmp_path / "other")
    assert not build.ensure(group), "nothing was built"
    assert group.archive.read_bytes() == (tmp_path / group.archive.name).read_bytes()


def test_of_each_kind_the_newest_three_archives_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(build, "OUT", tmp_path)
    monkeypatch.setattr(build, "KEPT", tmp_path / "kept")
    kinds = {name: [build.replace(make, fingerprint=str(number) * 12) for number in range(5)] for name, make in (
        ("slurm", build.slurm_group(build.Choice("trixie"))), ("mariadb", build.mariadb_group()))}  # fmt: skip
    for number in range(5):
        for groups in kinds.values():
            _archive(groups[number])
            os.utime(groups[number].archive, (number, number))
            build._keep(groups[number])
    names = {each.archive.name for groups in kinds.values() for each in groups[2:]}
    assert {each.name for each in (tmp_path / "kept").iterdir()} == names


def test_what_is_there_and_recorded_waits_for_no_other_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(build, "OUT", tmp_path)
    asked = {"suite": "trixie", "only": ["mariadb"], "arch": "", "choice": build.Choice("trixie")}
    args = argparse.Namespace(**asked, fresh=False, push=None, check_updates=False)
    assert not build.is_up_to_date(args)
    _archive(build.mariadb_group())
    assert not build.is_up_to_date(args), "images.json does not name it"
    build.record("trixie", [build.mariadb_group()])
    assert build.is_up_to_date(args)
    assert not build.is_up_to_date(argparse.Namespace(**vars(args) | {"fresh": True}))
    assert not build.is_up_to_date(argparse.Namespace(**vars(args) | {"only": ["mariadb", "sunkpy"]}))


META = """\
  Meta:\t\t1
  Name:\t\tslurm
  Version:\t{version}
  Release:\t1
  API_CURRENT:\t42
"""


def tarball_of_slurm(path: Path, *, folder: str = "slurm-25", version: str = "25.11.1", configure: str = "") -> Path:
    """As SchedMD makes it."""
    files = {
        "configure": configure,
        "META": META.format(version=version),
        "COPYING": "GPL",
        "contribs/slurm_completion_help/slurm_completion.sh": "complete -o nospace -F _sbatch sbatch\n",
    }
    with tarfile.open(path, f"w:{path.suffix.lstrip('.')}") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size, info.mode = len(text), 0o755
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


@pytest.mark.parametrize(
    ("name", "folder", "version"),
    [
        ("slurm-25.11.1.tar.bz2", "slurm-25.11.1", "25.11.1"),
        ("slurm-wlm_24.11.5.orig.tar.gz", "slurm-slurm-24-11-5-1", "24.11.5"),
        ("slurm-26.05.0-0rc1.tar.bz2", "./slurm-26.05.0-0rc1", "26.05.0-0rc1"),
    ],
)
def test_a_tarball_of_slurm_says_its_version_whatever_its_name(tmp_path: Path, name: str, folder: str, version: str):
    """Those of SchedMD, and those inside of Debian's source package."""
    source = build.read_source(tarball_of_slurm(tmp_path / name, folder=folder, version=version))
    assert source.version == version
    assert source.tarball == str(tmp_path / name)


def test_what_is_no_source_of_slurm_is_refused(tmp_path: Path):
    other = tmp_path / "other.tar.gz"
    with tarfile.open(other, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("other/README"))
    with pytest.raises(build.CannotBuild) as refused:
        build.read_source(other)
    assert str(refused.value) == (
        f"{other} is no source of Slurm: its folder has no META with a Version. Take slurm-VERSION.tar.bz2 of SchedMD,"
        " or slurm-wlm_VERSION.orig.tar.gz of Debian's source package"
    )
    (tmp_path / "page.html").write_text("<html>")
    for name, word in (("page.html", "file could not be opened"), ("gone", "No such file")):
        with pytest.raises(build.CannotBuild, match=f"{name} cannot be read as a tarball: .*{word}"):
            build.read_source(tmp_path / name)


def test_images_of_a_source_share_no_name_with_those_of_debians_slurm(tmp_path: Path):
    one = build.read_source(tarball_of_slurm(tmp_path / "one.bz2"))
    mended = build.read_source(tarball_of_slurm(tmp_path / "two.bz2", configure="a"))
    debians, ours, other = (build.slurm_group(build.Choice("trixie", each)) for each in (build.DEBIANS, one, mended))
    assert ours.ref("slurmd").startswith("docker.io/sunkpy/slurmd:25.11.1-trixie-")
    for kind in ("base", "archive"):
        assert len({getattr(each, kind) for each in (debians, ours, other)}) == 3, kind
    assert len({each.ref("slurmd") for each in (debians, ours, other)}) == 3
    assert not build.is_older(debians.archive.stem, ours.archive.stem)
    lean = build.slurm_group(build.Choice("sid", one), lean=True)
    assert lean.ref("login").startswith("docker.io/sunkpy/login:25.11.1-sid-lean-")
    assert ours.targets == debians.targets
    assert ours.base.tar == debians.base.tar, "Debian is the same"


@pytest.mark.parametrize("script", ["build-slurm", "pack-slurm"])
def test_a_package_of_a_source_is_made_anew_by_another_script(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tree = tmp_path / "slurm-images"
    shutil.copytree(build.HERE, tree)
    monkeypatch.setattr(build, "COMPILED_BY", tuple(tree / each.relative_to(build.HERE) for each in build.COMPILED_BY))
    monkeypatch.setattr(build, "HERE", tree)
    tarball = tarball_of_slurm(tmp_path / "one.bz2")
    before, debians = (
        build.slurm_group(build.Choice("trixie", build.read_source(tarball))),
        build.slurm_group(build.Choice("trixie")),
    )
    (tree / f"bin/{script}").write_text("#!/bin/bash\n")
    after = build.slurm_group(build.Choice("trixie", build.read_source(tarball)))
    for kind in ("package", "ref"):
        assert getattr(before.base, kind) != getattr(after.base, kind)
    assert before.ref("slurmd") != after.ref("slurmd")
    assert build.slurm_group(build.Choice("trixie")) == debians, "those of Debian's Slurm do not have it"


DIGEST = "0123456789ab" * 5 + "0123"


def test_images_on_one_of_the_site_have_its_name():
    image = f"registry.example.com:5000/site/ubuntu-mofed:24.04@sha256:{DIGEST}"
    choice = build.Choice("trixie", image=build.check_image(image))
    found = {name: make(choice) for name, make in build.GROUPS.items()}
    assert found["slurm"].ref("slurmd").startswith("docker.io/sunkpy/slurmd:on-ubuntu-mofed-24.04-")
    assert found["lean"].version == "on-ubuntu-mofed-24.04-lean"
    assert found["slurm"].base.ref == "localhost/sunkpy-base:on-ubuntu-mofed-24.04-456789ab0123"
    assert found["mariadb"].base == build.Base("trixie"), "what is not Slurm's stays"
    moved = build.Choice("trixie", image=image.replace("0123456789", "1123456789"))
    assert build.slurm_group(moved).ref("slurmd") != found["slurm"].ref("slurmd")
    both = build.Choice("trixie", build.Source("25.11.1", "0" * 12, "/slurm.tar.bz2"), image)
    assert build.key_of(both) == "25.11.1-on-ubuntu-mofed-24.04"
    assert not build.is_older(found["slurm"].archive.stem, build.slurm_group(build.Choice("trixie")).archive.stem)


@pytest.mark.parametrize(
    "image", ["ubuntu:24.04", "ubuntu", f"ubuntu@sha256:{DIGEST[:-1]}", f"@sha256:{DIGEST}", "a b"]
)
def test_an_image_of_the_site_whose_name_may_be_moved_is_refused(image: str):
    with pytest.raises(build.CannotBuild) as refused:
        build.check_image(image)
    assert str(refused.value) == f"--base {image}: name it by its digest, IMAGE@sha256:…, for a tag may be moved"


def test_a_package_of_a_source_stands_for_all_that_images_ask_of_debians_slurm():
    """Else an image of another Slurm would get a part of Debian's, or none."""
    asked = {
        word
        for line in (build.HERE / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
        if "install-packages" in line
        for word in line.split("&&")[0].split()
        if re.match(r"(lib)?(slurm|sackd|pam-slurm)", word)
    }
    script = (build.HERE / "bin/pack-slurm").read_text()
    (names,) = re.findall(r"PROVIDES=\((.*?)\)", script, re.DOTALL)
    assert asked == set(names.split())
    pinned = re.findall(r"^Package: (.*)$", build.ASKED_FIRST, re.MULTILINE)[0].split()
    assert all(any(fnmatch(name, pattern) for pattern in pinned) for name in asked)
    assert not any(fnmatch("slurm-from-source", pattern) for pattern in pinned)


def _layer(**files: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(build.archives.SBOM if name == "sbom" else name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return data.getvalue()


def _sbom(**packages: str) -> str:
    return json.dumps({"packages": [{"name": name, "versionInfo": version} for name, version in packages.items()]})


def test_an_archive_holds_a_shared_layer_once_and_names_every_image(tmp_path: Path):
    layout = tmp_path / "oci"

    def blob(data: object) -> dict[str, str]:
        text = data if isinstance(data, bytes) else json.dumps(data).encode()
        digest = hashlib.sha256(text).hexdigest()
        path = layout / "blobs" / "sha256" / digest
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        return {"digest": f"sha256:{digest}"}

    base = _layer(sbom=_sbom(libc6="2.41"))
    own = {"a": _layer(etc="a"), "b": _layer(sbom=_sbom(libc6="2.41", git="1:2.47"))}
    manifests = [
        blob({"config": blob(f"config of {name}"), "layers": [blob(base), blob(own[name])]})
        | {"annotations": {"org.opencontainers.image.ref.name": name}}
        for name in ("a", "b")
    ]
    (layout / "index.json").write_text(json.dumps({"manifests": manifests}))
    packages = {"a": {"libc6": "2.41"}, "b": {"libc6": "2.41", "git": "1:2.47"}}
    assert build.archives.packages_in(layout) == packages
    archive = tmp_path / "x.tar"
    build.archives.write_docker_archive(layout, archive, {"a": "reg/a:1", "b": "reg/b:1"})
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        entries = json.load(tar.extractfile("manifest.json"))
    assert len(names) == len(set(names)) == 6
    assert [entry["RepoTags"] for entry in entries] == [["reg/a:1"], ["reg/b:1"]]
    assert all({entry["Config"], *entry["Layers"]} <= set(names) for entry in entries)
    assert build.archives.refs_in(archive) == {"a": "reg/a:1", "b": "reg/b:1"}
    assert {name: json.loads(sbom) for name, sbom in build.archives.sboms_in(archive).items()} == {
        name: json.loads(_sbom(**each)) for name, each in packages.items()
    }
    found = build.archives.contents_of(archive)
    assert {name: each.packages for name, each in found.items()} == packages
    assert {name: each.size for name, each in found.items()} == {name: len(base) + len(own[name]) for name in own}
