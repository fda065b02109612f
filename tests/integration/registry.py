"""A registry of images and charts on loopback, without TLS."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from devcluster.binaries import REGISTRY, Binaries
from devcluster.waiting import NotYet, wait
from tests.ports import free_ports


@contextlib.contextmanager
def registry_in(folder: Path, binaries: Binaries) -> Iterator[str]:
    """Run a registry that keeps its images in the folder, and yield its address."""
    (port,) = free_ports(1)
    config = folder / "registry.yaml"
    config.write_text(
        f"version: 0.1\nhttp: {{addr: 127.0.0.1:{port}}}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder}/kept}}}}\n"
        "log: {level: error, accesslog: {disabled: true}}\n"
    )
    running = subprocess.Popen([str(binaries.folder(REGISTRY) / "registry"), "serve", str(config)])
    try:
        wait(partial(_answers, port), timeout_s=20, what="the registry answers")
        yield f"127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait(10)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError as error:
        raise NotYet(str(error)) from error


COSIGN = """#!/bin/sh
echo "$@" >>"${0%/*}/signed"
"""


def record_signatures(folder: Path) -> Path:
    """Put a cosign there that only writes down how it was called; the file that it writes to."""
    (folder / "cosign").write_text(COSIGN)
    (folder / "cosign").chmod(0o755)
    return folder / "signed"
