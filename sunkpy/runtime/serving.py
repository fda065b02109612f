"""An HTTP application on every address, which connections alone do not end.

aiohttp waits for ever for the first request of a connection, and bounds none. Each costs a descriptor and some kB, and
a process without descriptors cannot renew its lease: any job could end a leader by connecting.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

FROM_ONE_ADDRESS: Final = 1024
"""Connections. A node has some for each job that begins or ends; behind a proxy that masquerades all nodes are one."""
FIRST_BYTE_S: Final = 10.0


async def serve_app(
    app: web.Application, port: int, *, host: str | None = None, first_byte_s: float = FIRST_BYTE_S
) -> web.AppRunner:
    """Serve an application on every address, or on one; clean up the runner when done."""
    _allow_descriptors()
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await _Site(runner, (host, port), first_byte_s=first_byte_s).start()
    return runner


def _allow_descriptors() -> None:
    """As many as the administrator allows; what a process begins with may be 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _Site(web.BaseSite):
    """As aiohttp's own for TCP, with a door before each connection."""

    def __init__(self, runner: web.AppRunner, address: tuple[str | None, int], *, first_byte_s: float) -> None:
        super().__init__(runner)
        self._address = address
        self._first_byte_s = first_byte_s
        self._connected: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """Where it listens."""
        host, port = self._address
        return f"http://{host or '*'}:{port}"

    async def start(self) -> None:
        """Listen."""
        await super().start()
        self._server = await asyncio.get_running_loop().create_server(self._door, *self._address, backlog=128)

    def _door(self) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None, "the runner is set up"
        return _Door(server(), self._connected, first_byte_s=self._first_byte_s)


class _Door(asyncio.Protocol):
    """One connection, which is given on to aiohttp. It ends if its address has too many, or if it says nothing."""

    def __init__(self, behind: RequestHandler, connected: Counter[str], *, first_byte_s: float) -> None:
        self._behind = behind
        self._connected = connected
        self._first_byte_s = first_byte_s
        self._peer = ""
        self._too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """One more from this address."""
        assert isinstance(transport, asyncio.Transport)
        self._peer, *_ = transport.get_extra_info("peername") or ("",)
        self._connected[self._peer] += 1
        self._behind.connection_made(transport)
        if self._connected[self._peer] > FROM_ONE_ADDRESS:
            transport.abort()
            return
        self._too_late = asyncio.get_running_loop().call_later(self._first_byte_s, transport.abort)

    def connection_lost(self, exc: BaseException | None) -> None:
        """One less."""
        self._said_something()
        self._connected[self._peer] -= 1
        if not self._connected[self._peer]:
            del self._connected[self._peer]
        self._behind.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """It speaks; from here on aiohttp decides how long it may be silent."""
        self._said_something()
        self._behind.data_received(data)

    def eof_received(self) -> None:
        """It says no more."""
        self._behind.eof_received()

    def pause_writing(self) -> None:
        """It reads too slowly."""
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        """It has read."""
        self._behind.resume_writing()

    def _said_something(self) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None
