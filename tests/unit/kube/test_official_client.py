"""What the official client is for whoever else imports it: kopf logs in with it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "part",
    [
        "client.V1Pod",
        "config.load_kube_config",
        "dynamic.DynamicClient",
        "aio.config.load_kube_config",
        "aio.watch.Watch",
    ],
)
def test_each_part_is_there_when_it_is_used(part: str) -> None:
    code = f"import sunkpy.kube.connection, kubernetes; print(kubernetes.{part}.__name__)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == part.rpartition(".")[2]
