import asyncio

import pytest

from sunkpy.slurm import NodeCache, errors
from sunkpy.slurm.connection import Answer
from tests.unit.slurm.answers import Asked, Rest, in_json, slurm_errors

UNCHANGED = Answer(304)


def nodes(*names: str, at_s: int = 100, reason: str = "") -> Answer:
    listed = [{"name": name, "state": ["IDLE"], "reason": reason} for name in names]
    return in_json(200, {"nodes": listed, "last_update": {"set": True, "number": at_s}, "errors": [], "warnings": []})


class Clock:
    def __init__(self) -> None:
        self.now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


async def test_each_successful_read_is_an_observation_changed_or_not(rest: Rest) -> None:
    rest.say(nodes("a"), UNCHANGED)
    cache = NodeCache(rest.client("v0.0.45"), clock=Clock())
    first = await cache.refresh()
    second = await cache.refresh()
    assert (first.number, second.number) == (1, 2)
    assert second.nodes is first.nodes


async def test_unchanged_nodes_are_asked_for_by_time(rest: Rest) -> None:
    rest.say(nodes("a", at_s=123), UNCHANGED)
    cache = NodeCache(rest.client("v0.0.45"), clock=Clock())
    await cache.refresh()
    await cache.refresh()
    assert [r.params for r in rest.asked] == [{}, {"update_time": "123"}]


async def test_a_full_read_is_made_on_demand_and_each_minute(rest: Rest) -> None:
    rest.say(nodes("a", "b"), nodes("a"), nodes("a"))
    clock = Clock()
    cache = NodeCache(rest.client("v0.0.45"), clock=clock)
    await cache.refresh()
    assert set((await cache.refresh(full=True)).nodes) == {"a"}
    clock.now_s += 61
    await cache.refresh()
    assert [r.params for r in rest.asked] == [{}, {}, {}]


async def test_listeners_hear_what_came_went_and_changed(rest: Rest) -> None:
    rest.say(nodes("a", "b"), nodes("b", "c", at_s=101), nodes("b", "c", at_s=102, reason="x"), UNCHANGED)
    heard: list[frozenset[str]] = []
    cache = NodeCache(rest.client("v0.0.45"), clock=Clock())
    cache.add_listener(heard.append)
    for _ in range(4):
        await cache.refresh()
    assert heard == [{"a", "b"}, {"a", "c"}, {"b", "c"}, set()]


async def test_all_who_wait_while_a_read_is_on_its_way_share_the_next(rest: Rest) -> None:
    rest.say(nodes("a"), UNCHANGED)
    cache = NodeCache(rest.client("v0.0.45"), clock=Clock())
    seen = await asyncio.gather(*(cache.refresh() for _ in range(20)))
    assert [observation.number for observation in seen] == [1] + [2] * 19


async def test_age_counts_from_when_the_read_was_sent(rest: Rest) -> None:
    clock = Clock()
    cache = NodeCache(rest.client("v0.0.45"), poll_s=60, clock=clock)
    assert cache.age_s == float("inf")

    async def slow(_: Asked) -> Answer:
        clock.now_s += 2
        return nodes("a")

    rest.respond(slow)
    await cache.refresh()
    assert cache.age_s == 2


async def test_a_failed_read_leaves_the_last_observation_to_grow_old(rest: Rest) -> None:
    rest.say(nodes("a"), slurm_errors(502, 1800))
    clock = Clock()
    cache = NodeCache(rest.client("v0.0.45"), clock=clock)
    before = await cache.refresh()
    clock.now_s += 30
    with pytest.raises(errors.Unreachable):
        await cache.refresh()
    assert cache.observation is before
    assert cache.age_s == 30


async def test_a_node_that_is_as_it_was_is_the_same_value(rest: Rest) -> None:
    rest.say(nodes("a"), nodes("a", "b", at_s=101))
    cache = NodeCache(rest.client("v0.0.45"), clock=Clock())
    first, second = await cache.refresh(), await cache.refresh()
    assert second.nodes["a"] is first.nodes["a"]
    assert (first.listing, second.listing) == (1, 2)


def diag(total_us: int) -> Answer:
    rpcs = [
        {"message_type": "REQUEST_NODE_INFO", "type_id": 2007, "count": 9, "total_time": total_us},
        {"message_type": "REQUEST_PING", "type_id": 1008, "count": 9, "total_time": 10**9},
    ]
    return in_json(200, {"statistics": {"rpcs_by_message_type": rpcs}, "errors": []})


def slow(rest: Rest, clock: Clock, *costs_us: int) -> None:
    """A slurmrestd that takes two seconds for all nodes, and of what slurmctld takes of that."""
    totals = iter(costs_us)

    async def respond(request: Asked) -> Answer:
        if request.path.endswith("/diag/"):
            return diag(next(totals))
        clock.now_s += 2
        return nodes("a", at_s=int(clock.now_s))

    rest.respond(respond)


async def test_a_costly_read_is_followed_by_a_pause_as_long_as_slurmctld_needs(rest: Rest) -> None:
    clock = Clock()
    slow(rest, clock, 5_000_000, 5_400_000)
    cache = NodeCache(rest.client("v0.0.45"), clock=clock)
    await cache.refresh()
    assert cache.turn_s == 20 + 2, "ten times the whole read, as long as slurmctld has not told its own part"
    await cache.refresh()
    assert cache.turn_s == pytest.approx(4 + 2), "ten times 0.4 s"


async def test_a_cheap_read_asks_for_nothing_else(rest: Rest) -> None:
    rest.say(nodes("a"), UNCHANGED)
    cache = NodeCache(rest.client("v0.0.45"), clock=Clock())
    await cache.refresh()
    await cache.refresh()
    assert cache.turn_s < 1.1


async def test_who_is_in_a_hurry_waits_for_the_pace_alone(rest: Rest) -> None:
    rest.say(nodes("a"), nodes("a", "b", at_s=101))
    cache = NodeCache(rest.client("v0.0.45"), poll_s=3600, clock=Clock())  # else a slow machine sets another pace
    heard = asyncio.Event()
    polling = asyncio.ensure_future(cache.run())
    cache.add_listener(lambda changed: heard.set() if "b" in changed else None)
    try:
        async with asyncio.timeout(5):
            while cache.observation is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            cache.hasten(full=True)
            await heard.wait()
    finally:
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
    assert "update_time" not in rest.asked[-1].params


async def test_a_full_read_that_was_asked_for_meanwhile_is_not_forgotten(rest: Rest) -> None:
    rest.say(nodes("a", "b"), nodes("a", at_s=101))
    cache = NodeCache(rest.client("v0.0.45"), clock=Clock())
    flight = asyncio.ensure_future(cache.refresh())
    while not rest.asked:  # noqa: ASYNC110
        await asyncio.sleep(0)
    cache.hasten(full=True)
    await flight
    assert set((await cache.refresh()).nodes) == {"a"}
    assert [r.params for r in rest.asked] == [{}, {}]
