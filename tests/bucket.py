"""A bucket of a real S3 server, Versity's gateway (github.com/versity/versitygw), which keeps objects as files."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from pathlib import Path

from devcluster.binaries import VERSITYGW, Binaries
from devcluster.state import default_cache
from devcluster.waiting import wait_until
from tests.ports import free_ports

KEY, SECRET = "backups", "se/cr+et="


class Bucket:
    """A bucket on a server of its own, at an address of this machine; `folder` is where its objects are files."""

    def __init__(self, folder: Path, *, host: str = "127.0.0.1") -> None:
        binaries = Binaries(default_cache())
        binaries.ensure([VERSITYGW], progress=print)
        self.folder = folder / "bucket"
        self.folder.mkdir(parents=True)
        (self.port,) = free_ports(1)
        self._at = (host, self.port)
        self.endpoint = f"http://{host}:{self.port}"
        env = {**os.environ, "ROOT_ACCESS_KEY_ID": KEY, "ROOT_SECRET_ACCESS_KEY": SECRET}
        program = binaries.folder(VERSITYGW) / "versitygw"
        argv = [program, "--port", f"{host}:{self.port}", "--quiet", "posix", folder]
        self._process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL)
        assert wait_until(self._answers, timeout_s=20, every_s=0.1)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(self._at, timeout=1):
            return True
        return False

    def names(self) -> set[str]:
        """The names of all objects."""
        return {path.name for path in self.folder.rglob("*.gz")}

    def env(self, **changes: str) -> list[str]:
        """A command line with what the chart gives to backups."""
        values = {"ENDPOINT": self.endpoint, "BUCKET": self.folder.name, "PREFIX": "old/slurm/"} | changes
        return ["env", *(f"SUNKPY_S3_{key}={value}" for key, value in values.items())]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)
