"""Reads a kubelet's feature gates from its metrics.

The kubelet's certificate is not checked, because it is mostly self-signed. So nobody knows who receives the token that
is sent: it must give no right but to read the metrics of kubelets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import aiohttp

from sunkpy.kube import errors

_TIMEOUT: Final = aiohttp.ClientTimeout(total=5)
_GATE: Final = re.compile(r'^kubernetes_feature_enabled\{name="([^"]+)"[^}]*\} ([01])', re.MULTILINE)


async def feature_gates(address: str, port: int, *, token: str) -> Mapping[str, bool]:
    """Return feature gate of the kubelet → whether it is on.

    Raises:
        Unavailable: the kubelet does not answer, or refuses.
    """
    url = f"https://[{address}]:{port}/metrics" if ":" in address else f"https://{address}:{port}/metrics"
    headers = {"Authorization": f"Bearer {token}"}
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.get(url, headers=headers, ssl=False) as answer,
        ):
            text = await answer.text()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise errors.Unavailable(f"GET {url}", status=0, message=f"no answer: {error!r}") from error
    if answer.status != 200:
        raise errors.Unavailable(f"GET {url}", status=answer.status, message=text[:200])
    return {name: value == "1" for name, value in _GATE.findall(text)}
