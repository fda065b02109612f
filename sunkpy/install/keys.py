"""The keys of a Slurm cluster, and the password of its database: made once, kept for ever.

Losing `slurm.key` cuts every daemon off; replacing `jwt.key` ends every token; another password shuts slurmdbd out of a
database that is still made for the first. So a key that exists is left alone,
whatever it holds, and all are made in the cluster: no rendered manifest ever contains one. A key that somebody brings
is not made even while it is missing: an immutable one in its place would be in that person's way.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping

from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube

_SLURM_KEY_BYTES = 1024  # slurm.key is an HMAC key: any bytes will do
_JWT_KEY_BYTES = 32  # HS256
_PASSWORD_BYTES = 24  # letters, digits, - and _: nothing that a reader of configurations could take amiss


async def ensure_keys(
    kube: Kube, *, namespace: str, slurm_secret: str, jwt_secret: str, database_secret: str = ""
) -> list[str]:
    """Create the Secrets that are missing; what was done, one line each. An empty name is a key that somebody brings.

    Raises:
        KubeError: the service account may not create Secrets, or the apiserver does not answer.
    """
    wanted = (
        (slurm_secret, "slurm.key", secrets.token_bytes(_SLURM_KEY_BYTES)),
        (jwt_secret, "jwt.key", secrets.token_bytes(_JWT_KEY_BYTES)),
        (database_secret, "password", secrets.token_urlsafe(_PASSWORD_BYTES).encode()),
    )
    return [await _ensure(kube, namespace, secret, {key: value}) for secret, key, value in wanted if secret]


async def _ensure(kube: Kube, namespace: str, secret: str, data: Mapping[str, bytes]) -> str:
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret, "labels": {"app.kubernetes.io/managed-by": "sunkpy"}},
        "immutable": True,
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
    try:
        await kube.create(paths.secrets(namespace), body)
    except errors.Conflict:
        return f"Secret {namespace}/{secret} exists: kept"
    return f"Secret {namespace}/{secret} created"
