"""Connections alone do not end a server."""

from __future__ import annotations

import asyncio
import resource
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web

from sunkpy.runtime import serving
from sunkpy.runtime.metrics_secret import MetricsSecret
from sunkpy.runtime.serving import serve_app
from tests.unit.runtime.certificates import NAME, trust_in, write_certificate


@asynccontextmanager
async def served(*, first_byte_s: float = 60.0, certificate: serving.Certificate | None = None) -> AsyncIterator[int]:
    """The port of an application that answers 200."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="here")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = await serve_app(app, 0, first_byte_s=first_byte_s, certificate=certificate)
    try:
        yield next(address[1] for address in runner.addresses if len(address) == 2)
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(
    port: int, trust: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that has sent nothing, except for the TLS handshake if there is a `trust`."""
    name = NAME if trust is not None else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=name)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
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
    async with served(first_byte_s=1.0) as port, connected(port) as asking:  # it has to ask within this time
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_certificate(tmp_path)
    return tmp_path


async def test_over_tls_it_answers_and_counts_the_same(folder, monkeypatch):
    monkeypatch.setattr(serving, "ENCRYPTED_FROM_ONE_ADDRESS", 2)
    trust = trust_in(folder)
    async with served(certificate=MetricsSecret(folder).context) as port, connected(port, trust) as first:
        assert await ask(*first) == "HTTP/1.1 200 OK"
        async with connected(port) as no_handshake:
            async with connected(port) as (one_more, _):
                assert await ends(one_more)
            no_handshake[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await ends(no_handshake[0]), "plain HTTP is no handshake"
        async with connected(port, trust) as in_its_place:
            assert await ask(*in_its_place) == "HTTP/1.1 200 OK"
        assert await ask(*first) == "HTTP/1.1 200 OK"


async def test_a_handshake_that_does_not_come_ends(folder):
    async with served(first_byte_s=0.05, certificate=MetricsSecret(folder).context) as port:
        for _ in range(2):
            async with connected(port) as (reader, _):
                assert await ends(reader)


async def test_a_handshake_without_a_request_ends(folder):
    async with served(first_byte_s=0.5, certificate=MetricsSecret(folder).context) as port:
        with suppress(OSError):  # on a busy machine it ends in the middle of the handshake
            async with connected(port, trust_in(folder)) as (reader, _):
                assert await ends(reader)


async def test_a_request_may_come_with_the_end_of_the_handshake(folder):
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trust_in(folder).wrap_bio(received, sent, server_hostname=NAME)
    async with served(certificate=MetricsSecret(folder).context) as port, connected(port) as (reader, writer):
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
        writer.write(sent.read())
        while not client.cipher():
            received.write(await reader.read(65536))
            with suppress(ssl.SSLWantReadError):
                client.do_handshake()
        client.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        writer.write(sent.read())
        answer = b""
        while not answer.endswith(b"here"):
            received.write(await reader.read(65536))
            with suppress(ssl.SSLWantReadError):
                answer += client.read()
    assert answer.startswith(b"HTTP/1.1 200 OK")
