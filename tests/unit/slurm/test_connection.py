"""What is taken for the answer of slurmrestd, whatever comes behind it on the wire."""

import asyncio
import contextlib

import pytest

from sunkpy.slurm.connection import Answer, Connection, NoAnswer

REFUSED = b'HTTP/1.1 404 NOT FOUND\r\nConnection: Close\r\nContent-Length: 14\r\n\r\n{"errors":[{}]'
AGAIN = b"HTTP/1.1 404 NOT FOUND\r\nConnection: Close\r\nContent-Length: 7\r\n\r\nInvalid"
KEPT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
UNCHANGED = b"HTTP/1.1 304 Not Modified\r\n\r\n"
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{} \r\n\r\n"


@contextlib.asynccontextmanager
async def server(*answers, piece=0):
    """Gives each request the next answer, in pieces, and closes the connection where it says so."""
    left = list(answers)

    async def serve(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while left:
                await reader.readuntil(b"\r\n\r\n")
                text = left.pop(0)
                for at in range(0, len(text), piece or len(text)):
                    writer.write(text[at : at + (piece or len(text))])
                    await writer.drain()
                    await asyncio.sleep(0)
                if b"lose\r\n" in text:
                    break
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    connection = Connection(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
    async with listening:
        yield lambda: connection.exchange("GET", "/x", content=None, headers={})
        await connection.close()


@pytest.mark.parametrize("piece", [0, 1, 7, 100])
async def test_a_refusal_that_is_sent_twice_is_one(piece):
    """As slurmrestd 26.05 sends each: as JSON, then again as text."""
    async with server(KEPT, UNCHANGED, REFUSED + AGAIN, KEPT, piece=piece) as ask:
        assert [await ask() for _ in range(4)] == [
            Answer(200, b"{}"),
            Answer(304),
            Answer(404, b'{"errors":[{}]'),
            Answer(200, b"{}"),
        ]


@pytest.mark.parametrize("piece", [0, 1])
async def test_an_answer_without_a_length_is_all_that_comes(piece):
    async with server(UNTIL_CLOSED, piece=piece) as ask:
        assert await ask() == Answer(200, b"{} \r\n\r\n")


async def test_an_answer_that_is_cut_short_is_none():
    async with server(REFUSED[:-3]) as ask:
        with pytest.raises(NoAnswer):
            await ask()
