"""What a kubelet shows of itself: its metrics, to who comes with the right token."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from tests.doubles.serving import serving


class Kubelet:
    """`gates`: its feature gates; None is one that refuses everybody."""

    def __init__(self, **gates: bool) -> None:
        self.gates: dict[str, bool] | None = gates
        self.tokens: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        """Answer a request for metrics."""
        self.tokens.append(request.headers["Authorization"].removeprefix("Bearer "))
        if self.gates is None or request.path != "/metrics":
            return web.Response(status=403, text="Forbidden")
        name = "kubernetes_feature_enabled"
        lines = [f'{name}{{name="{gate}",stage="ALPHA"}} {int(is_on)}' for gate, is_on in self.gates.items()]
        return web.Response(text="\n".join(["# TYPE kubernetes_feature_enabled gauge", *lines, ""]))


@asynccontextmanager
async def serving_kubelet(kubelet: Kubelet, folder: Path) -> AsyncIterator[int]:
    """Serve the kubelet with a certificate of its own, and yield its port."""
    files = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=k"]
    await asyncio.to_thread(subprocess.run, ["openssl", "req", *kind, *files], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    app = web.Application()
    app.router.add_route("GET", "/{path:.*}", kubelet.handle)
    async with serving(app, tls=context) as port:
        yield port
