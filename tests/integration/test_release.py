"""A release of the last commit into a registry, from which alone it is installed."""

from __future__ import annotations

import base64
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
from tests.integration.registry import registry_in
from tests.integration.releases import prepared, release, version_of
from tests.integration.signatures import WRONG_KEY, WRONG_OF_FILE, Signatures
from tests.integration.test_chart_registry import write_image
from tests.unit.tools.programs import load
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
    signatures = Signatures(binaries, tmp_path / "keys", monkeypatch)
    site, version = f"{registry}/site", version_of(clone)
    options = ("--registry", site, "--plain-http", "--suite", "trixie", "--skip-checks")
    said = release(clone, *options, "--dry-run")
    assert re.search(rf"nothing was pushed; these would be:\n  {site}/login:trixie-[0-9a-f]{{12}}\n", said)
    assert not (tmp_path / "kept").exists()

    said = release(clone, *options, "--sign", signatures.key)
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

    for image in found:
        signatures.verify(image)
        assert signatures.attested(image)
    for chart in ("openldap", "slurm", "sunkpy"):
        signatures.verify_chart(site, chart, version)
    signatures.verify_sums(files)
    others = Signatures(binaries, tmp_path / "others", monkeypatch)
    with pytest.raises(CommandFailed, match=WRONG_KEY):
        others.verify(image)
    with pytest.raises(CommandFailed, match=WRONG_KEY):
        others.verify_chart(site, "slurm", version)
    with pytest.raises(CommandFailed, match=WRONG_OF_FILE):
        others.verify_sums(files)

    sbom = json.loads((files / f"slurmd-{version}-trixie-linux-amd64.spdx.json").read_text())
    assert "libc6" in {package["name"] for package in sbom["packages"]}
    (slurmd,) = [image for image in found if image.startswith(f"{site}/slurmd:")]
    statement = json.loads(base64.b64decode(json.loads(signatures.attested(slurmd))["payload"]))
    assert statement["predicate"] == sbom
    of_wheel = json.loads((files / f"sunkpy-{version}.cdx.json").read_text())
    assert "kopf" in {component["name"] for component in of_wheel["components"]}
    (wheel,) = files.glob("*.whl")
    assert "sunkpy/cli/__init__.py" in zipfile.ZipFile(wheel).namelist()
    values = yaml.safe_load((files / "images-trixie.yaml").read_text())["images"]
    assert {image for name, image in values.items() if name != "sssd"} < found
    assert (files / "CHANGES.md").read_text().startswith("### Added\n")

    sums = files / "SHA256SUMS"
    sums.write_text(sums.read_text().replace("0", "1"))
    with pytest.raises(CommandFailed, match=WRONG_OF_FILE):
        signatures.verify_sums(files)
    (package,) = files.glob("slurm-*.tgz")
    package.write_bytes(package.read_bytes() + b"\0")
    with pytest.raises(CommandFailed, match=rf"nothing was pushed: {site} has another slurm:{version}\. What is"):
        release(clone, *options, "--sign", signatures.key)


def test_an_image_for_two_platforms_is_one_signed_index_of_both(binaries, registry, tmp_path, monkeypatch):
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
    signatures = Signatures(binaries, tmp_path / "keys", monkeypatch)
    load("release").Signer(signatures.key, keyless=False, plain_http=True).sign(pushed)
    signatures.verify(pushed)
    for each in images:
        assert oci.manifest_in(f"{registry}/site/slurmd@{each['digest']}", plain_http=True)
        signatures.verify(f"{registry}/site/slurmd@{each['digest']}")


def test_a_registry_that_does_not_answer_has_not_simply_no_such_image():
    with pytest.raises(CommandFailed, match="connection refused"):
        oci.manifest_in("127.0.0.1:1/site/slurmd:1", plain_http=True)
