"""A release of the last commit into a registry, from which alone it is installed."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from devcluster import packages
from devcluster.binaries import HELM, KUBERNETES_VERSION, REGISTRY, Binaries
from devcluster.shell import CommandFailed, run
from devcluster.state import default_cache
from tests.integration.registry import record_signatures, registry_in
from tests.integration.releases import prepared, release, version_of
from tests.integration.test_chart_registry import write_image
from tools import oci

pytestmark = [pytest.mark.integration, pytest.mark.long]

PINNED = re.compile(r"@sha256:[0-9a-f]{64}$")


@pytest.fixture(scope="module")
def binaries() -> Binaries:
    binaries = Binaries(default_cache())
    binaries.ensure([HELM, REGISTRY], progress=print)
    packages.ensure(oci.PROGRAMS, progress=print)
    return binaries


@pytest.fixture
def registry(binaries: Binaries, tmp_path: Path) -> Iterator[str]:
    with registry_in(tmp_path, binaries) as address:
        yield address


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return prepared(tmp_path / "clone")


def _images(manifests: str) -> set[str]:
    return set(re.findall(r'^ *-? *image: "?([^"\s]+)', manifests, flags=re.MULTILINE))


def test_the_commit_that_is_released_passes_the_tests_that_know_of_versions(clone):
    run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/docs"], cwd=clone, timeout_s=1100)


def test_a_release_is_installed_from_the_registry_alone(binaries, registry, clone, tmp_path, monkeypatch):
    signed = record_signatures(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    site, version = f"{registry}/site", version_of(clone)
    options = ("--registry", site, "--plain-http", "--suite", "trixie", "--skip-checks")
    said = release(clone, *options, "--dry-run")
    assert re.search(rf"nothing was pushed; these would be:\n  {site}/login:trixie-[0-9a-f]{{12}}\n", said)
    assert not (tmp_path / "kept").exists()

    said = release(clone, *options, "--sign", "site.key")
    assert "images: done before\nsboms: done before\n" in said
    files = clone / "build/release" / version / "files"
    run(["sha256sum", "--check", "SHA256SUMS"], cwd=files)
    helm = str(binaries.helm / "helm")
    template = (helm, "template", "demo", "--kube-version", KUBERNETES_VERSION, "--plain-http", "--version", version)
    found = set()
    for chart, given in (("sunkpy", ()), ("slurm", ("--set", "home.storageClass=nfs")), ("openldap", ())):
        images = _images(run([*template, *given, f"oci://{site}/charts/{chart}"]))
        assert images, chart
        found |= images
    assert {image.partition(f"{site}/")[0] for image in found} == {""}
    for image in found:
        name, _, digest = image.partition("@")
        assert PINNED.search(image), image
        manifest = oci.manifest_in(name, plain_http=True)
        assert manifest is not None
        assert oci.digest_of(manifest) == digest, "the tag is the image that charts name by digest"
    names = {image.removeprefix(f"{site}/").partition(":")[0] for image in found}
    assert names >= {"slurmctld", "slurmd", "slurmdbd", "slurmrestd", "login", "mariadb", "openldap", "sunkpy"}

    calls = signed.read_text().splitlines()
    for image in found:
        assert f"sign --yes --key site.key --recursive --allow-http-registry {image}" in calls
        attested = [call for call in calls if call.startswith("attest ") and call.endswith(image.partition("@")[2])]
        assert all("--key site.key --type spdxjson --predicate /" in call for call in attested)
        assert attested
    charts = [call for call in calls if "/charts/" in call]
    assert [PINNED.sub("", call.split()[-1]) for call in charts] == [
        f"{site}/charts/{chart}:{version}" for chart in ("openldap", "slurm", "sunkpy")
    ]

    sums = files / "SHA256SUMS"
    assert f"sign-blob --yes --key site.key --bundle {sums}.sigstore.json {sums}" in calls

    sbom = json.loads((files / f"slurmd-{version}-trixie-linux-amd64.spdx.json").read_text())
    assert "libc6" in {package["name"] for package in sbom["packages"]}
    of_wheel = json.loads((files / f"sunkpy-{version}.cdx.json").read_text())
    assert "kopf" in {component["name"] for component in of_wheel["components"]}
    (wheel,) = files.glob("*.whl")
    assert "sunkpy/cli/__init__.py" in zipfile.ZipFile(wheel).namelist()
    values = yaml.safe_load((files / "images-trixie.yaml").read_text())["images"]
    assert {image for name, image in values.items() if name != "sssd"} < found
    assert (files / "CHANGES.md").read_text().startswith("### Added\n")

    (package,) = files.glob("slurm-*.tgz")
    package.write_bytes(package.read_bytes() + b"\0")
    with pytest.raises(CommandFailed, match=rf"nothing was pushed: {site} has another slurm:{version}\. What is"):
        release(clone, *options, "--sign", "site.key")


def test_an_image_for_two_platforms_is_one_index_of_both(registry, tmp_path):
    layout = oci.Layout(tmp_path / "layout")
    layout.folder.mkdir()
    for architecture in ("amd64", "arm64"):
        archive, ref = tmp_path / f"{architecture}.tar", "docker.io/sunkpy/slurmd:1"
        write_image(archive, ref, architecture=architecture)
        layout.take(f"slurmd_{architecture}", archive=archive, ref=ref)
    layout.join("slurmd", ["slurmd_amd64", "slurmd_arm64"])
    pushed = f"{registry}/site/slurmd:0.2.0"
    assert oci.manifest_in(pushed, plain_http=True) is None
    layout.push("slurmd", pushed, plain_http=True)
    manifest = oci.manifest_in(pushed, plain_http=True)
    assert oci.digest_of(manifest) == layout.digest("slurmd")
    images = json.loads(manifest)["manifests"]
    assert [each["platform"] for each in images] == [
        {"os": "linux", "architecture": "amd64"},
        {"os": "linux", "architecture": "arm64"},
    ]
    for each in images:
        assert oci.manifest_in(f"{registry}/site/slurmd@{each['digest']}", plain_http=True)


def test_a_registry_that_does_not_answer_has_not_simply_no_such_image():
    with pytest.raises(CommandFailed, match="connection refused"):
        oci.manifest_in("127.0.0.1:1/site/slurmd:1", plain_http=True)
