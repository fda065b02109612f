"""One HTTP exchange with slurmrestd, without a word of what is asked there; see `sunkpy.slurm.transport`.

aiohttp, because a burst of jobs is thousands of small requests: httpx takes four times the processor time for each of
them, and from some twenty in flight on its pool takes most of that (decision 0048).
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import aiohttp
import msgspec
from yarl import URL

_AT_ONCE: Final = 32
"""Who asks for much limits itself: a request that waits here would hold up those that others wait for."""

_KEPT_S: Final = 60.0
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=10, sock_connect=2, sock_read=30)


class Answer(msgspec.Struct, frozen=True):
    """What came back, whatever it says."""

    status: int
    content: bytes = b""

    @property
    def is_success(self) -> bool:
        """2xx."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def text(self) -> str:
        """For people."""
        return self.content.decode(errors="replace")


class NoAnswer(Exception):
    """Nobody answered, or not in time; the text says how. The request may have been carried out."""


class Connection:
    """Connections to one address, kept for some time. Opened by the first request, in the event loop that makes it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all of them."""
        if self._session is not None:
            await self._session.close()

    async def exchange(self, method: str, path: str, *, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request, once; `path` is as it stands on the wire, with its query.

        Raises:
            NoAnswer.
        """
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=_AT_ONCE, keepalive_timeout=_KEPT_S)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar()
            )
        url = URL(f"{self._url}{path}", encoded=True)
        try:
            async with self._session.request(
                method, url, data=content, headers=headers, allow_redirects=False
            ) as answer:
                return Answer(answer.status, await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoAnswer(f"{type(error).__name__} {error}".rstrip()) from error
