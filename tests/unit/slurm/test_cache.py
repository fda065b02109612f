import asyncio

import httpx
import pytest
from pytest_httpx import HTTPXMock

from sunkpy.slurm import NodeCache, errors
from tests.unit.slurm.answers import client, serve, slurm_errors

UNCHANGED = httpx.Response(304)


def nodes(*names: str, at_s: int = 100, reason: str = "") -> httpx.Response:
    listed = [{"name": name, "state": ["IDLE"], "reason": reason} for name in names]
    return httpx.Response(
        200, json={"nodes": listed, "last_update": {"set": True, "number": at_s}, "errors": [], "warnings": []}
    )


class Clock:
    def __init__(self) -> None:
        self.now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


async def test_each_successful_read_is_an_observation_changed_or_not(httpx_mock: HTTPXMock) -> None:
    serve(httpx_mock, nodes("a"), UNCHANGED)
    cache = NodeCache(client("v0.0.45"))
    first = await cache.refresh()
    second = await cache.refresh()
    assert (first.number, second.number) == (1, 2)
    assert second.nodes is first.nodes


async def test_unchanged_nodes_are_asked_for_by_time(httpx_mock: HTTPXMock) -> None:
    serve(httpx_mock, nodes("a", at_s=123), UNCHANGED)
    cache = NodeCache(client("v0.0.45"))
    await cache.refresh()
    await cache.refresh()
    assert [dict(r.url.params) for r in httpx_mock.get_requests()] == [{}, {"update_time": "123"}]


async def test_a_full_read_is_made_on_demand_and_each_minute(httpx_mock: HTTPXMock) -> None:
    serve(httpx_mock, nodes("a", "b"), nodes("a"), nodes("a"))
    clock = Clock()
    cache = NodeCache(client("v0.0.45"), clock=clock)
    await cache.refresh()
    assert set((await cache.refresh(full=True)).nodes) == {"a"}
    clock.now_s += 61
    await cache.refresh()
    assert [dict(r.url.params) for r in httpx_mock.get_requests()] == [{}, {}, {}]


async def test_listeners_hear_what_came_went_and_changed(httpx_mock: HTTPXMock) -> None:
    serve(httpx_mock, nodes("a", "b"), nodes("b", "c", at_s=101), nodes("b", "c", at_s=102, reason="x"), UNCHANGED)
    heard: list[frozenset[str]] = []
    cache = NodeCache(client("v0.0.45"))
    cache.add_listener(heard.append)
    for _ in range(4):
        await cache.refresh()
    assert heard == [{"a", "b"}, {"a", "c"}, {"b", "c"}, set()]


async def test_all_who_wait_while_a_read_is_on_its_way_share_the_next(httpx_mock: HTTPXMock) -> None:
    serve(httpx_mock, nodes("a"), UNCHANGED)
    cache = NodeCache(client("v0.0.45"))
    seen = await asyncio.gather(*(cache.refresh() for _ in range(20)))
    assert [observation.number for observation in seen] == [1] + [2] * 19


async def test_age_counts_from_when_the_read_was_sent(httpx_mock: HTTPXMock) -> None:
    clock = Clock()
    cache = NodeCache(client("v0.0.45"), clock=clock)
    assert cache.age_s == float("inf")

    def slow(_: httpx.Request) -> httpx.Response:
        clock.now_s += 2
        return nodes("a")

    httpx_mock.add_callback(slow)
    await cache.refresh()
    assert cache.age_s == 2


async def test_a_failed_read_leaves_the_last_observation_to_grow_old(httpx_mock: HTTPXMock) -> None:
    serve(httpx_mock, nodes("a"), slurm_errors(502, 1800))
    clock = Clock()
    cache = NodeCache(client("v0.0.45"), clock=clock)
    before = await cache.refresh()
    clock.now_s += 30
    with pytest.raises(errors.Unreachable):
        await cache.refresh()
    assert cache.observation is before
    assert cache.age_s == 30
