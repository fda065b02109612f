"""Ask slurmrestd from this machine, many times a second: the pods of a devcluster are one route away."""

from __future__ import annotations

import base64
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from demo.stack import Stack
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm.client import Slurm
from tests.e2e.processes import pods_of

_JWT_KEY = "jwt.key"


def jwt_key(stack: Stack) -> bytes:
    """The key that signs Slurm's tokens, from the Secret of the release."""
    secrets = stack.kubectl.json("secrets", "-n", stack.namespace)["items"]
    found = (secret["data"][_JWT_KEY] for secret in secrets if _JWT_KEY in secret.get("data", {}))
    return base64.b64decode(next(found))


def rest_url(stack: Stack) -> str:
    """Address of the slurmrestd pod."""
    return f"http://{pods_of(stack, 'slurmrestd')[0].status.pod_ip}:6820"


@contextlib.asynccontextmanager
async def slurm_client(stack: Stack) -> AsyncIterator[Slurm]:
    """A client as Slurm's administrator."""
    with tempfile.TemporaryDirectory() as folder:
        key_file = Path(folder) / _JWT_KEY
        key_file.write_bytes(jwt_key(stack))
        slurm = Slurm.connect(SlurmSettings(url=rest_url(stack), user="slurm", jwt_key_file=str(key_file)))
        try:
            yield slurm
        finally:
            await slurm.close()
