"""The keys of a Slurm cluster: made once, kept for ever.

Losing `slurm.key` cuts every daemon off; replacing `jwt.key` ends every token. So a key that exists is left alone,
whatever it holds, and both are made in the cluster: no rendered manifest ever contains one. A key that somebody brings
is not made even while it is missing: an immutable one in its place would be in that person's way.
"""

from __future__ import annotations

import base64
import secrets

from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube

_SLURM_KEY_BYTES = 1024  # slurm.key is an HMAC key: any bytes will do
_JWT_KEY_BYTES = 32  # HS256


async def ensure_keys(kube: Kube, *, namespace: str, slurm_secret: str, jwt_secret: str) -> list[str]:
    """Create the Secrets that are missing; what was done, one line each. An empty name is a key that somebody brings.

    Raises:
        KubeError: the service account may not create Secrets, or the apiserver does not answer.
    """
    wanted = ((slurm_secret, "slurm.key", _SLURM_KEY_BYTES), (jwt_secret, "jwt.key", _JWT_KEY_BYTES))
    return [await _ensure(kube, namespace, secret, key, size) for secret, key, size in wanted if secret]


async def _ensure(kube: Kube, namespace: str, secret: str, key: str, size_bytes: int) -> str:
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret, "labels": {"app.kubernetes.io/managed-by": "sunkpy"}},
        "immutable": True,
        "data": {key: base64.b64encode(secrets.token_bytes(size_bytes)).decode()},
    }
    try:
        await kube.create(paths.secrets(namespace), body)
    except errors.Conflict:
        return f"Secret {namespace}/{secret} exists: kept"
    return f"Secret {namespace}/{secret} created"
