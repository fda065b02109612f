"""Serve a double over real HTTP, and wait for what becomes of it."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

from aiohttp import web

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LOOK_AGAIN_S = 0.01
_AT_MOST_S = 300.0


class Changes:
    """Wakes those who wait for a state of a double."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def note(self) -> None:
        """Something has changed."""
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self) -> None:
        """Wait until the next change."""
        await self._next.wait()

    async def until(self, condition: Callable[[], T], *, within_s: float = 30.0) -> T:
        """First true value of `condition`; looks after each change, and each 10 ms at what is not part of a double.

        Time is counted in looks in vain: on a busy machine they take longer, as does everything that is waited for.

        Raises:
            TimeoutError: it was never true.
        """
        looks = within_s / _LOOK_AGAIN_S
        async with asyncio.timeout(_AT_MOST_S):
            while not (found := condition()):
                changed = asyncio.ensure_future(self.wait())
                done, _ = await asyncio.wait({changed}, timeout=_LOOK_AGAIN_S)
                changed.cancel()
                looks -= not done
                if looks < 0:
                    raise TimeoutError
            return found


@asynccontextmanager
async def serving(app: web.Application, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve an application on a free port, which is given."""
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def answering(handler: Handler, folder: Path) -> AsyncIterator[Path]:
    """Have every request for an apiserver answered by a handler; gives a kubeconfig for it, kept in the folder.

    Each client of Kubernetes reads the machine's certificates, 28 ms of a processor, also for http. Here it finds none.
    """
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with serving(app) as port:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(
            json.dumps(
                {
                    "current-context": "c",
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                }
            )
        )
        with patch.dict(os.environ, SSL_CERT_FILE=os.devnull):
            yield kubeconfig
