"""The files of a `metricsSecret`."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

from sunkpy.install.certificate import make_certificate

NAME = "sunkpy-metrics"
TOKEN = "s3cret"


def write_certificate(folder: Path) -> None:
    """A new one, and the token."""
    for name, content in make_certificate((NAME,), now=datetime.datetime.now(datetime.UTC)).items():
        (folder / name).write_bytes(content)
    (folder / "token").write_text(f"{TOKEN}\n")


def trust_in(folder: Path) -> ssl.SSLContext:
    """A client that knows the certificate of now."""
    return ssl.create_default_context(cafile=str(folder / "tls.crt"))
