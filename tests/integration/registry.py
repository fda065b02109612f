"""A registry of images and charts, on loopback without TLS or for a cluster with it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from devcluster.binaries import REGISTRY, Binaries
from devcluster.shell import run
from devcluster.waiting import NotYet, wait
from tests.ports import free_ports


class Certificate(NamedTuple):
    """A certificate that signs itself, and its key: two files."""

    file: Path
    key: Path


def certificate_for(addresses: Iterable[str], folder: Path) -> Certificate:
    """Make a certificate for these IP addresses, valid for a day."""
    made = Certificate(folder / "registry.crt", folder / "registry.key")
    names = ",".join(f"IP:{each}" for each in addresses)
    run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=registry",
         "-addext", f"subjectAltName={names}", "-keyout", str(made.key), "-out", str(made.file)]
    )  # fmt: skip
    return made


@contextlib.contextmanager
def registry_in(
    folder: Path, binaries: Binaries, *, host: str = "127.0.0.1", certificate: Certificate | None = None
) -> Iterator[str]:
    """Run a registry that keeps its images in the folder; yield its address. With a certificate it speaks TLS alone."""
    (port,) = free_ports(1)
    config = folder / "registry.yaml"
    tls = f", tls: {{certificate: {certificate.file}, key: {certificate.key}}}" if certificate else ""
    config.write_text(
        f"version: 0.1\nhttp: {{addr: {host}:{port}{tls}}}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder}/kept}}}}\n"
        "log: {level: error, accesslog: {disabled: true}}\n"
    )
    running = subprocess.Popen(
        [str(binaries.folder(REGISTRY) / "registry"), "serve", str(config)],
        env={**os.environ, "OTEL_TRACES_EXPORTER": "none"},
    )
    try:
        wait(partial(_answers, host, port), timeout_s=20, what="the registry answers")
        yield f"{host}:{port}"
    finally:
        running.terminate()
        running.wait(10)


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=5):
            return True
    except OSError as error:
        raise NotYet(str(error)) from error
