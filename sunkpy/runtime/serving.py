"""Serves an HTTP application, with limits so that many connections cannot end the process.

aiohttp waits for ever for the first request of a connection, and does not limit the number of connections. Each one
costs a descriptor and some kB, and a process without descriptors cannot renew its lease: without the limits, any job
could end a leader by opening connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

FROM_ONE_ADDRESS: Final = 1024
"""The most connections from one address. A node has some for each job that begins or ends; behind a proxy that
masquerades, all nodes are one address.
"""
ENCRYPTED_FROM_ONE_ADDRESS: Final = 256
"""The most TLS connections from one address. asyncio gives each 256 KiB before its handshake: 64 MiB in all."""
FIRST_BYTE_S: Final = 10.0

Certificate = Callable[[], ssl.SSLContext]
"""A function that returns the TLS context for the next connection."""


async def serve_app(
    app: web.Application,
    port: int,
    *,
    host: str | None = None,
    first_byte_s: float = FIRST_BYTE_S,
    certificate: Certificate | None = None,
) -> web.AppRunner:
    """Serve an application on every address, or on `host` alone; with `certificate` over TLS. The first byte of a
    connection has to come within `first_byte_s`. The caller cleans up the returned runner.
    """
    _allow_descriptors()
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await _Site(runner, (host, port), first_byte_s=first_byte_s, certificate=certificate).start()
    return runner


def _allow_descriptors() -> None:
    """Raise the limit of open files to what the administrator allows; a process may begin with 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _Site(web.BaseSite):
    """A site like aiohttp's own for TCP, but each connection goes through a `_Door`, which limits the number of
    connections.
    """

    def __init__(
        self,
        runner: web.AppRunner,
        address: tuple[str | None, int],
        *,
        first_byte_s: float,
        certificate: Certificate | None,
    ) -> None:
        super().__init__(runner)
        self._address = address
        self._first_byte_s = first_byte_s
        self._certificate = certificate
        self._connected: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """The address on which the server listens."""
        host, port = self._address
        return f"{'https' if self._certificate else 'http'}://{host or '*'}:{port}"

    async def start(self) -> None:
        """Begin to listen."""
        await super().start()
        self._server = await asyncio.get_running_loop().create_server(self._door, *self._address, backlog=128)

    def _door(self) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None, "the runner is set up"
        behind = server()
        if self._certificate is None:
            return _Door(behind, self._connected, first_byte_s=self._first_byte_s)
        return _EncryptedDoor(behind, self._connected, first_byte_s=self._first_byte_s, certificate=self._certificate)


class _Door(asyncio.Protocol):
    """The asyncio protocol of one connection, which passes data on to aiohttp. It closes the connection if the client's
    address has too many of them, or if the client sends nothing for `first_byte_s`.
    """

    def __init__(self, behind: RequestHandler, connected: Counter[str], *, first_byte_s: float) -> None:
        self._behind = behind
        self._connected = connected
        self._first_byte_s = first_byte_s
        self._peer: str | None = None
        self._is_open = False
        self._too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count one more connection from the client's address, and close it if that address has too many."""
        assert isinstance(transport, asyncio.Transport)
        self._peer, *_ = transport.get_extra_info("peername") or ("",)
        self._connected[self._peer] += 1
        if self._connected[self._peer] > self._most():
            transport.abort()
            return
        self._too_late = asyncio.get_running_loop().call_later(self._first_byte_s, transport.abort)
        self._begin(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Count one connection less from the client's address, but not twice for one connection, and tell aiohttp."""
        self._said_something()
        if self._peer is not None:
            self._connected[self._peer] -= 1
            if not self._connected[self._peer]:
                del self._connected[self._peer]
            self._peer = None
        if self._is_open:
            self._is_open = False
            self._behind.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass data on to aiohttp, which from now on decides how long the client may be silent."""
        self._said_something()
        self._behind.data_received(data)

    def eof_received(self) -> None:
        """Tell aiohttp that the client sends no more."""
        self._behind.eof_received()

    def pause_writing(self) -> None:
        """Tell aiohttp that the client reads too slowly."""
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        """Tell aiohttp that the client has read enough again."""
        self._behind.resume_writing()

    def _most(self) -> int:
        return FROM_ONE_ADDRESS

    def _begin(self, transport: asyncio.Transport) -> None:
        self._is_open = True
        self._behind.connection_made(transport)

    def _said_something(self) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None


class _EncryptedDoor(_Door):
    """The asyncio protocol of a TLS connection. The connection counts before its handshake. Handshake and first data
    have to come within `first_byte_s`.

    With `create_server(ssl=…)` asyncio would pass the connection on only after the handshake.
    """

    def __init__(
        self, behind: RequestHandler, connected: Counter[str], *, first_byte_s: float, certificate: Certificate
    ) -> None:
        super().__init__(behind, connected, first_byte_s=first_byte_s)
        self._certificate = certificate
        self._handshake: asyncio.Task[None] | None = None
        self._early = b""

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the handshake, if there is one, and count one connection less."""
        if self._handshake is not None:
            self._handshake.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass data on to aiohttp. Data that comes together with the end of the handshake is kept until aiohttp has the
        connection.
        """
        if self._is_open:
            super().data_received(data)
        else:
            self._early += data

    def _most(self) -> int:
        return ENCRYPTED_FROM_ONE_ADDRESS

    def _begin(self, transport: asyncio.Transport) -> None:
        transport.pause_reading()
        self._handshake = asyncio.get_running_loop().create_task(self._shake_hands(transport))

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        loop, encrypted = asyncio.get_running_loop(), None
        with contextlib.suppress(OSError):  # SSLError is one
            encrypted = await loop.start_tls(transport, self, self._certificate(), server_side=True)
        self._handshake = None
        if encrypted is None:
            self.connection_lost(None)
            return
        super()._begin(encrypted)
        if self._early:
            self.data_received(self._early)
