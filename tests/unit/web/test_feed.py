"""What viewers are sent of one reader's tables."""

from __future__ import annotations

import asyncio
import gzip
import json

import msgspec
import pytest

from sunkpy.core.overview.sight import EVERYTHING, Sight
from sunkpy.core.page.rows import HEAD, NODES
from sunkpy.kube.errors import Unavailable
from sunkpy.web import feed
from tests.doubles.serving import Changes
from tests.unit.core.page.test_tables import facts, waiting

STRANGER = Sight(namespaces=frozenset())


class Source:
    """Gives what a test has put there; an error is raised."""

    def __init__(self):
        self.next = facts()
        self.reads = 0

    async def read(self):
        self.reads += 1
        if isinstance(self.next, Exception):
            raise self.next
        return self.next


@pytest.fixture
def source():
    return Source()


@pytest.fixture
async def own(source):
    own = feed.Feed(source, every_s=5.0)
    await own.refresh()
    return own


async def viewer(own, sight=EVERYTHING):
    channel = await own.channel(sight)
    texts = asyncio.Queue(2)
    channel.viewers.add(texts)
    return channel, texts


def tables_of(channel):
    return json.loads(gzip.decompress(channel.page()))["tables"]


async def test_viewers_with_the_same_rights_share_a_channel_and_others_do_not(own):
    assert await own.channel(EVERYTHING) is await own.channel(EVERYTHING)
    stranger = await own.channel(STRANGER)
    assert "team" in json.dumps(tables_of(await own.channel(EVERYTHING)))
    assert "team" not in json.dumps(tables_of(stranger))


async def test_each_is_sent_the_difference_that_it_may_see(own, source):
    (_, all_texts), (_, some_texts) = await viewer(own), await viewer(own, STRANGER)
    source.next = facts(jobs=(waiting(21, 9, "k8s:team/later:u"),))
    await own.refresh()
    told, hidden = json.loads(all_texts.get_nowait()), json.loads(some_texts.get_nowait())
    assert (told["number"], list(told["tables"])) == (2, ["head", "waiting"])
    assert [key for key, _ in told["tables"]["waiting"]["set"]] == ["21"]
    assert hidden["tables"]["waiting"]["set"][0][1]["name"] == "a pod"


async def test_a_large_change_is_read_as_a_page_which_is_compressed(own, source):
    channel, texts = await viewer(own)
    source.next = facts(jobs=[waiting(100 + number, 5) for number in range(2000)])
    await own.refresh()
    assert texts.get_nowait() == feed.AGAIN
    assert len(tables_of(channel)["waiting"]["set"]) == 2000
    assert len(channel.page()) < 40_000


async def test_a_viewer_that_is_too_slow_begins_again_and_holds_nobody_up(own):
    channel, texts = await viewer(own)
    for _ in range(4):
        await own.refresh()
    assert texts.get_nowait() == feed.AGAIN
    assert channel.number == own.number == 5


async def test_while_the_apiserver_is_away_the_old_is_shown_and_said_to_be_old(own, source):
    channel, _ = await viewer(own)
    source.next = Unavailable("GET /api/v1/nodes", status=0, message="no answer")
    task = asyncio.ensure_future(own.run())
    await Changes().until(lambda: own.number >= 2)
    task.cancel()
    tables = tables_of(channel)
    assert "the page shows old data" in tables[HEAD]["set"][0][1]["unread"][0]
    assert len(tables[NODES]["set"]) == 3
    assert msgspec.json.decode(gzip.decompress(channel.page()))["at"] == source_time()


def source_time():
    return facts().now.timestamp()
