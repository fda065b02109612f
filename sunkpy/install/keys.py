"""Makes the keys of a Slurm cluster, of its database, its sshd and its directory once, and never changes them.

Without `slurm.key` no daemon is accepted. A new `jwt.key` makes every token invalid. A new password locks slurmdbd out
of its database. A new host key or certificate looks like an attack to every client. So an existing key is never
changed, and all are made in the cluster: no rendered manifest contains one. A key that the administrator provides is
never made here, because an immutable Secret in its place would be in the way.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sunkpy.install.certificate import make_certificate
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube


def _ssh_host_key() -> bytes:
    """Return a new private key in the form that sshd reads."""
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


KINDS: Mapping[str, Callable[[], bytes]] = MappingProxyType(
    {
        "slurm.key": lambda: secrets.token_bytes(1024),  # for an HMAC: any bytes will do
        "jwt.key": lambda: secrets.token_bytes(32),  # HS256
        # Letters, digits, - and _, which need no quotes in a configuration.
        "password": lambda: secrets.token_urlsafe(24).encode(),
        "ssh_host_ed25519_key": _ssh_host_key,
    }
)
"""The kinds of keys, by their name in the Secret, each with a function that makes one."""


async def ensure_keys(kube: Kube, *, namespace: str, wanted: Mapping[str, str]) -> list[str]:
    """Create the missing Secrets, and return what was done, one line for each.

    `wanted`: name of the Secret → the kind of its key, one of `KINDS`. An empty name stands for a key that the
    administrator provides: nothing is created.

    Raises:
        KubeError: the service account may not create Secrets, or the apiserver does not answer.
    """
    return [await _ensure(kube, namespace, secret, {kind: KINDS[kind]()}) for secret, kind in wanted.items() if secret]


async def ensure_certificate(kube: Kube, *, namespace: str, secret: str, hosts: Sequence[str]) -> str:
    """Create the Secret with a server's certificate if it is missing, and return what was done, in one line.

    Raises:
        KubeError: the service account may not create Secrets, or the apiserver does not answer.
    """
    return await _ensure(kube, namespace, secret, make_certificate(hosts, now=datetime.now(UTC)))


async def _ensure(kube: Kube, namespace: str, secret: str, data: Mapping[str, bytes]) -> str:
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret, "labels": {"app.kubernetes.io/managed-by": "sunkpy"}},
        "immutable": True,
        "data": {name: base64.b64encode(content).decode() for name, content in data.items()},
    }
    try:
        await kube.create(paths.secrets(namespace), body)
    except errors.Conflict:
        return f"Secret {namespace}/{secret} exists: kept"
    return f"Secret {namespace}/{secret} created"
