"""Signatures of a real cosign, without the public log, checked by the commands of docs/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from demo.stack import ROOT
from devcluster.binaries import Binaries, Product
from devcluster.shell import run

COSIGN: Final = Product(name="cosign", version="3.1.3", packages=("github.com/sigstore/cosign/v3/cmd/cosign",))
WRONG_KEY: Final = "no matching attestations"
"""What cosign says of an image or a chart that another key has signed."""
WRONG_OF_FILE: Final = "invalid signature"
"""What cosign says of a file that another key has signed, or that changed since."""
UNSIGNED: Final = "no signatures found"
_TEXT: Final = "\n".join((ROOT / "docs" / page).read_text() for page in ("start.md", "tasks/build-images.md"))
_WITHOUT_LOG: Final = dict(re.findall(r"\b(COSIGN_\w+)=(true|false)\b", _TEXT))


class Signatures:
    """A pair of keys, and a cosign that is on the PATH until the test ends."""

    def __init__(self, binaries: Binaries, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        binaries.ensure([COSIGN], progress=print)
        folder.mkdir()
        self.folder = folder
        self.key = str(folder / "cosign.key")
        monkeypatch.setenv("PATH", str(binaries.folder(COSIGN)), prepend=":")
        for name, value in {**_WITHOUT_LOG, "COSIGN_PASSWORD": "", "COSIGN_ALLOW_HTTP_REGISTRY": "true"}.items():
            monkeypatch.setenv(name, value)
        run(["cosign", "generate-key-pair"], cwd=folder)

    def verify(self, image: str) -> None:
        """Verify an image, as docs/tasks/build-images.md says."""
        self._run(re.sub(r"\S+$", image, _command("verify --key cosign.pub registry")))

    def verify_chart(self, registry: str, chart: str, version: str) -> None:
        """Verify a chart, as docs/start.md says."""
        command = _command("verify --key cosign.pub $REGISTRY").replace("slurm", chart)
        self._run(command, REGISTRY=registry, VERSION=version)

    def verify_sums(self, folder: Path) -> None:
        """Verify the list of a release's files, as docs/start.md says; they are in the folder."""
        self._run(_command("verify-blob").replace("cosign.pub", f"{self.folder}/cosign.pub"), cwd=folder)

    def attested(self, image: str) -> str:
        """Return what is attested of an image as the list of its packages."""
        return self._run(f"cosign verify-attestation --key cosign.pub --type spdxjson {image}")

    def _run(self, command: str, *, cwd: Path | None = None, **env: str) -> str:
        return run(["bash", "-c", command], env=env, cwd=cwd or self.folder)


def _command(begin: str) -> str:
    """Return the command of docs/ that begins with these words."""
    (found,) = re.findall(rf"cosign {re.escape(begin)}[^`\n]*", _TEXT)
    return str(found).rstrip()
