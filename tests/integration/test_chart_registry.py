"""What an admin has in a registry of the site: the charts, signed, and the images."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import packages
from devcluster.binaries import HELM, KUBERNETES_VERSION, REGISTRY, Binaries
from devcluster.shell import CommandFailed, run
from devcluster.state import default_cache
from tests.integration.registry import registry_in
from tests.integration.signatures import UNSIGNED, WRONG_KEY, Signatures
from tests.unit.charts.rendering import IMAGES
from tests.unit.slurm_images.test_build import build

pytestmark = [pytest.mark.integration, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
CHARTS = ("openldap", "slurm", "sunkpy")
SIGNER = "Release Manager"


@pytest.fixture(scope="module")
def binaries() -> Binaries:
    binaries = Binaries(default_cache())
    binaries.ensure([HELM, REGISTRY], progress=print)
    packages.ensure({"gpg": "gpg"}, progress=print)
    return binaries


@pytest.fixture
def registry(binaries: Binaries, tmp_path: Path) -> Iterator[str]:
    """Where charts are in one."""
    with registry_in(tmp_path, binaries) as address:
        yield f"oci://{address}/charts"


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    """A secret keyring and a public one, in the form that helm reads."""
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--yes", "--pinentry-mode", "loopback", "--passphrase", ""]
    run([*gpg, "--quick-generate-key", SIGNER, "rsa2048", "sign", "never"])
    made = {"secret": str(tmp_path / "secret.gpg"), "public": str(tmp_path / "public.gpg")}
    run([*gpg, "--output", made["secret"], "--export-secret-keys"])
    run([*gpg, "--output", made["public"], "--export"])
    run(["gpgconf", "--homedir", str(home), "--kill", "all"])
    return made


def test_charts_are_pushed_signed_and_come_back_as_they_are_here(binaries, registry, keys, tmp_path):
    helm = str(binaries.helm / "helm")
    template = (helm, "template", "demo", "--kube-version", KUBERNETES_VERSION)
    values = {name: tmp_path / f"{name}.yaml" for name in CHARTS}
    for name, file in values.items():
        file.write_text(json.dumps(IMAGES[name]))
    sign = f"SIGN=--sign --key '{SIGNER}' --keyring {keys['secret']}"
    run(["make", "-C", str(ROOT), "charts", sign])
    for chart in CHARTS:
        (package,) = (ROOT / "build/charts").glob(f"{chart}-[0-9]*.tgz")
        run([helm, "push", "--plain-http", str(package), registry])
        version = package.stem.removeprefix(f"{chart}-")
        from_registry = ("--plain-http", f"{registry}/{chart}", "--version", version)
        given = ("--values", str(values[chart]))
        rendered = run([*template, *from_registry, *given, "--verify", "--keyring", keys["public"]])
        assert rendered == run([*template, str(ROOT / "charts" / chart), *given]), chart
        pulled = run([helm, "show", "crds", *from_registry])
        assert pulled == run([helm, "show", "crds", str(ROOT / "charts" / chart)])
    another = tmp_path / "another.gpg"
    another.write_bytes(b"")
    with pytest.raises(CommandFailed, match="signature made by unknown entity"):
        run([*template, *from_registry, *given, "--verify", "--keyring", str(another)])


def write_image(archive: Path, ref: str, *, architecture: str = "amd64") -> None:
    """A docker-archive of an image with one empty layer."""
    layer = b"\0" * 10240
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
    config = json.dumps({"architecture": architecture, "os": "linux", "config": {}, "rootfs": rootfs}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [ref], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(archive, "w") as tar:
        for name, text in (("manifest.json", manifest), ("config.json", config), ("layer.tar", layer)):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))


def test_images_are_pushed_under_their_own_tags_signed_and_said_as_values(
    binaries, registry, tmp_path, monkeypatch, capsys
):
    packages.ensure({"buildah": "buildah"}, progress=print)
    address = registry.removeprefix("oci://").removesuffix("/charts")
    config = tmp_path / "registries.conf"
    config.write_text(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n')
    monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(config))
    images = {}
    for name, tag in (("slurmd", "trixie-1a2b"), ("openldap", "trixie-3c4d")):
        images[name] = {"ref": f"docker.io/sunkpy/{name}:{tag}", "archive": str(tmp_path / f"{name}.tar")}
        write_image(Path(images[name]["archive"]), images[name]["ref"])
    signatures = Signatures(binaries, tmp_path / "keys", monkeypatch)
    build.push(images, f"{address}/site/", key=signatures.key)
    pinned = []
    for ref in ("openldap:trixie-3c4d", "slurmd:trixie-1a2b"):
        url = f"http://{address}/v2/site/{ref.replace(':', '/manifests/')}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            digest = f"sha256:{hashlib.sha256(answer.read()).hexdigest()}"
        pinned.append(f"{address}/site/{ref}@{digest}")
    assert f"images:\n  slurmd: {pinned[1]}\n" in capsys.readouterr().out
    for each in pinned:
        signatures.verify(each)
    with pytest.raises(CommandFailed, match=WRONG_KEY):
        Signatures(binaries, tmp_path / "others", monkeypatch).verify(pinned[0])

    tag = f"{address}/site/slurmd:trixie-1a2b"
    signatures.verify(tag)
    write_image(Path(images["slurmd"]["archive"]), images["slurmd"]["ref"], architecture="arm64")
    build.push({"slurmd": images["slurmd"]}, f"{address}/site/")
    with pytest.raises(CommandFailed, match=UNSIGNED):
        signatures.verify(tag)
