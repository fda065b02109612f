"""Reads the pool for all viewers of the page, as long as somebody looks, and sends each viewer what has changed.

Viewers with the same rights share a channel: the tables are filtered, compared, encoded and compressed once for each
channel, and each viewer has a queue of the same texts. slurmrestd and the apiserver see one reader, however many people
look. The next read begins only after ten times the time that the last one took, but at most 30 s later.
"""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import structlog

from sunkpy.core.overview.sight import Sight
from sunkpy.core.page.delta import TableChange, diff_tables
from sunkpy.core.page.rows import EMPTY, HEAD, HeadRow, Tables
from sunkpy.core.page.sight import filter_tables
from sunkpy.core.page.tables import PageFacts, build_tables
from sunkpy.kube.errors import KubeError
from sunkpy.slurm.pace import LONGEST_S, SHARE
from sunkpy.web.source import PageSource

AGAIN: Final = "again"
"""The message to a viewer if an update is too large or was missed: the browser then reads the whole page, compressed.
"""
_LARGEST: Final = 64 * 1024
_LINGER_S: Final = 60.0
_FAST: Final = 4


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of the page's tables since the update before, or all rows for a new viewer.

    `at`: when the pool was read, in seconds since 1970.
    """

    number: int
    at: float
    tables: Mapping[str, TableChange]


class Channel:
    """The tables for all viewers with the same rights, and the queues to them (`viewers`)."""

    def __init__(self, sight: Sight, tables: Tables, number: int, at: float) -> None:
        self.sight = sight
        self._tables = filter_tables(tables, sight)
        self._number, self._at = number, at
        self._page = b""
        self.viewers: set[asyncio.Queue[str]] = set()

    @property
    def number(self) -> int:
        """The number of the last update, which `page` includes."""
        return self._number

    def page(self) -> bytes:
        """Return all tables of these viewers as compressed JSON."""
        if not self._page:
            whole = Update(number=self._number, at=self._at, tables=diff_tables(EMPTY, self._tables))
            self._page = gzip.compress(msgspec.json.encode(whole), _FAST)
        return self._page

    def update(self, tables: Tables, number: int, at: float) -> None:
        """Send the changes of the tables to all viewers of this channel. A viewer that is too far behind reads the
        whole page again.
        """
        new = filter_tables(tables, self.sight)
        text = msgspec.json.encode(Update(number=number, at=at, tables=diff_tables(self._tables, new))).decode()
        self._tables, self._number, self._at, self._page = new, number, at, b""
        for viewer in self.viewers:
            late = viewer.full()
            while late and not viewer.empty():
                viewer.get_nowait()
            viewer.put_nowait(AGAIN if late or len(text) > _LARGEST else text)


class Feed:
    """The page's tables (`tables`), kept up to date as long as somebody looks. `facts`: what they were built from."""

    def __init__(
        self,
        source: PageSource,
        *,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.source = source
        self._every_s = every_s
        self._clock = clock
        self._wanted_at_s = float("-inf")
        self._wanted = asyncio.Event()
        self._read = asyncio.Event()
        self._number, self._at = 0, 0.0
        self._channels: dict[Sight, Channel] = {}
        self._log = structlog.get_logger("page")
        self.facts: PageFacts | None = None
        self.tables = EMPTY

    async def run(self) -> None:
        """Read the pool again and again while somebody looks at the page, until cancelled."""
        while True:
            await self._wanted.wait()
            started_s = self._clock()
            try:
                await self.refresh()
            except KubeError as error:
                self._log.warning("the apiserver cannot be read", error=str(error))
                self._fail(str(error))
            took_s = self._clock() - started_s
            await asyncio.sleep(min(max(self._every_s, SHARE * took_s), LONGEST_S) - min(took_s, self._every_s))
            if self._clock() - self._wanted_at_s > _LINGER_S and not self.viewers:
                self._wanted.clear()
                self._read.clear()

    async def refresh(self) -> None:
        """Read the pool once, and send the changes to all viewers.

        Raises:
            KubeError: the apiserver could not be read; the tables stay.
        """
        facts = await self.source.read()
        self.tables = await asyncio.to_thread(build_tables, facts, self.tables)
        self.facts, self._at = facts, facts.now.timestamp()
        self._publish()

    async def channel(self, sight: Sight) -> Channel:
        """Return the channel for viewers with these rights, once the pool was read."""
        self._wanted_at_s = self._clock()
        self._wanted.set()
        await self._read.wait()
        if sight not in self._channels:
            self._channels[sight] = Channel(sight, self.tables, self._number, self._at)
        return self._channels[sight]

    @property
    def number(self) -> int:
        """The number of the last update of the tables."""
        return self._number

    @property
    def viewers(self) -> int:
        """How many viewers look at the page now."""
        return sum(len(channel.viewers) for channel in self._channels.values())

    def _publish(self) -> None:
        self._number += 1
        self._read.set()
        lingers = self._clock() - self._wanted_at_s <= _LINGER_S
        self._channels = {s: channel for s, channel in self._channels.items() if channel.viewers or lingers}
        for channel in self._channels.values():
            channel.update(self.tables, self._number, self._at)

    def _fail(self, why: str) -> None:
        """Keep the tables after a read that failed, and tell viewers in the page's head that the tables are old."""
        head, said = self.tables[HEAD].get("", HeadRow(headline="")), f"Kubernetes: {why}; the page shows old data"
        assert isinstance(head, HeadRow)
        if said not in head.unread:
            self.tables = {**self.tables, HEAD: {"": msgspec.structs.replace(head, unread=(*head.unread, said))}}
            self._publish()
