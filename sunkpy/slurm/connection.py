"""Sends one HTTP request to slurmrestd and returns the answer, whatever its content; see `sunkpy.slurm.transport`.

It uses aiohttp, because a burst of jobs is thousands of small requests. httpx needs four times the CPU time for each,
most of it in its connection pool if some twenty requests are in flight.
"""

from __future__ import annotations

import asyncio
import functools
import math
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, Protocol

import aiohttp
import msgspec
from aiohttp.client_proto import ResponseHandler
from yarl import URL

_AT_ONCE: Final = 32
"""The most connections. It is high because callers with many requests limit themselves; a wait here would delay others.
"""

_KEPT_S: Final = 60.0
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=10, sock_connect=2, sock_read=30)

_HEAD_ENDS: Final = b"\r\n\r\n"
_STATUS: Final = re.compile(rb"HTTP/1\.\d (\d{3})")
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CLOSES: Final = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)


class Answer(msgspec.Struct, frozen=True):
    """An HTTP answer of slurmrestd."""

    status: int
    content: bytes = b""

    @property
    def is_success(self) -> bool:
        """True for a status of 2xx."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def text(self) -> str:
        """The answer as text for people."""
        return self.content.decode(errors="replace")


class NoAnswer(Exception):
    """slurmrestd could not be reached, or did not answer in time; the text says which. slurmrestd may have carried out
    the request. `hint`: what a person can check.
    """

    hint = "is slurmrestd running?"


class Exchange(Protocol):
    """A way to send requests to slurmrestd: HTTP connections, or a relay (a program in a pod that sends them)."""

    async def exchange(self, method: str, path: str, *, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request once, and return the answer. `path`: URL-encoded, with its query. Raises NoAnswer."""

    async def close(self) -> None:
        """Close the connection."""


class Connection:
    """A pool of HTTP connections to one slurmrestd; idle ones are kept for a minute. The first request makes the pool,
    which belongs to the event loop of that request.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def exchange(self, method: str, path: str, *, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request once, and return the answer. `path`: URL-encoded, with its query.

        Raises:
            NoAnswer: slurmrestd could not be reached, or did not answer in time.
        """
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=_AT_ONCE, keepalive_timeout=_KEPT_S)
            connector._factory = functools.partial(_hears_once, asyncio.get_running_loop())
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar()
            )
            # Else aiohttp sends a DELETE again when the connection breaks before the answer.
            self._session._retry_connection = False
        url = URL(f"{self._url}{path}", encoded=True)
        try:
            async with self._session.request(
                method, url, data=content, headers=headers, allow_redirects=False
            ) as answer:
                return Answer(answer.status, await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoAnswer(f"{type(error).__name__} {error}".rstrip()) from error


def _hears_once(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _FirstAnswer(loop)


class _FirstAnswer(ResponseHandler):
    """An aiohttp protocol: if slurmrestd announces with an answer that it closes the connection, all bytes after this
    answer are dropped.

    slurmrestd 26.05 sends each refusal twice, as JSON and then again as text, and closes. aiohttp would treat both
    together as a broken answer, and the refusal would be lost.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._head = b""
        self._body_left: float = 0
        self._is_last = False

    def data_received(self, data: bytes) -> None:
        """Pass received bytes on to aiohttp, except the bytes after the last answer of a connection that closes. Empty
        data comes from aiohttp itself.
        """
        own = data[: self._own(data)]
        if own or not data:
            super().data_received(own)

    def _own(self, data: bytes) -> int:
        """Return how many bytes at the start of `data` belong to answers that aiohttp must get; the caller drops the
        rest.
        """
        at = 0
        while at < len(data):
            if self._body_left:
                taken = int(min(self._body_left, len(data) - at))
                self._body_left -= taken
                at += taken
            elif self._is_last:
                break
            else:
                at += self._read_head(data[at:])
        return at

    def _read_head(self, data: bytes) -> int:
        """Return how many bytes at the start of `data` belong to the head of an answer, and note the head when it is
        complete.
        """
        before, self._head = len(self._head), self._head + data
        ends = self._head.find(_HEAD_ENDS)
        if ends < 0:
            return len(data)
        head, self._head = self._head[: ends + len(_HEAD_ENDS)], b""
        self._is_last = bool(_CLOSES.search(head))
        length, status = _LENGTH.search(head), _STATUS.match(head)
        has_no_body = status is not None and int(status[1]) in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
        # Without a Content-Length all following bytes are the body.
        self._body_left = 0 if has_no_body else int(length[1]) if length is not None else math.inf
        return len(head) - before
