"""Charts as an admin without this repository gets them: from an OCI registry, signed."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from devcluster import packages
from devcluster.binaries import HELM, KUBERNETES_VERSION, REGISTRY, Binaries
from devcluster.shell import CommandFailed, run
from devcluster.state import default_cache
from devcluster.waiting import NotYet, wait
from tests.integration.slurm.daemons import free_ports

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
    """Its address, on loopback and without TLS."""
    (port,) = free_ports(1)
    config = tmp_path / "registry.yaml"
    config.write_text(
        f"version: 0.1\nhttp: {{addr: 127.0.0.1:{port}}}\n"
        f"storage: {{filesystem: {{rootdirectory: {tmp_path}/kept}}}}\n"
        "log: {level: error, accesslog: {disabled: true}}\n"
    )
    running = subprocess.Popen([str(binaries.folder(REGISTRY) / "registry"), "serve", str(config)])
    try:
        wait(partial(_answers, port), timeout_s=20, what="the registry answers")
        yield f"oci://127.0.0.1:{port}/charts"
    finally:
        running.terminate()
        running.wait(10)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError as error:
        raise NotYet(str(error)) from error


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
    sign = f"SIGN=--sign --key '{SIGNER}' --keyring {keys['secret']}"
    run(["make", "-C", str(ROOT), "charts", sign])
    for chart in CHARTS:
        (package,) = (ROOT / "build/charts").glob(f"{chart}-[0-9]*.tgz")
        run([helm, "push", "--plain-http", str(package), registry])
        version = package.stem.removeprefix(f"{chart}-")
        from_registry = ("--plain-http", f"{registry}/{chart}", "--version", version)
        rendered = run([*template, *from_registry, "--verify", "--keyring", keys["public"]])
        assert rendered == run([*template, str(ROOT / "charts" / chart)]), chart
        pulled = run([helm, "show", "crds", *from_registry])
        assert pulled == run([helm, "show", "crds", str(ROOT / "charts" / chart)])
    another = tmp_path / "another.gpg"
    another.write_bytes(b"")
    with pytest.raises(CommandFailed, match="signature made by unknown entity"):
        run([*template, *from_registry, "--verify", "--keyring", str(another)])
