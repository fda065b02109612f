"""Connections alone do not end a server."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import web

from sunkpy.runtime import serving
from sunkpy.runtime.serving import serve_app


@asynccontextmanager
async def served(*, first_byte_s: float = 60.0) -> AsyncIterator[int]:
    """The port of an application that answers 200."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="here")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = await serve_app(app, 0, first_byte_s=first_byte_s)
    try:
        yield next(address[1] for address in runner.addresses if len(address) == 2)
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that has said nothing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionResetError):
            await writer.wait_closed()


async def ends(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionResetError:
        return True


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(len("here"))
    return head.decode().splitlines()[0]


async def test_a_connection_without_a_request_ends():
    async with served(first_byte_s=0.05) as port, connected(port) as (reader, _):
        assert await ends(reader)


async def test_one_that_has_asked_stays_open():
    async with served(first_byte_s=0.1) as port, connected(port) as asking:
        assert await ask(*asking) == "HTTP/1.1 200 OK"
        async with connected(port) as (silent, _):
            assert await ends(silent), "so long a first request may take"
        assert await ask(*asking) == "HTTP/1.1 200 OK"


async def test_of_one_address_only_so_many_are_served(monkeypatch):
    monkeypatch.setattr(serving, "FROM_ONE_ADDRESS", 2)
    async with served() as port, connected(port) as first:
        async with connected(port) as second:
            async with connected(port) as (one_more, _):
                assert await ends(one_more)
            assert await ask(*second) == "HTTP/1.1 200 OK"
        async with connected(port) as in_its_place:
            assert await ask(*in_its_place) == "HTTP/1.1 200 OK"
        assert await ask(*first) == "HTTP/1.1 200 OK"


async def test_it_may_have_as_many_descriptors_as_the_administrator_allows():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        async with served():
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
