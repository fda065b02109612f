from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from sunkpy.runtime.queue import QueueMetrics, Urgency, WorkQueue, run_workers


async def work_until(
    queue: WorkQueue[str], reconcile: Callable[[str], Awaitable[float | None]], done: asyncio.Event
) -> None:
    workers = asyncio.ensure_future(run_workers(queue, reconcile, workers=2))
    try:
        await asyncio.wait_for(done.wait(), timeout=20)
    finally:
        workers.cancel()
        await asyncio.gather(workers, return_exceptions=True)


async def test_a_key_added_many_times_is_worked_on_once() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    for _ in range(5):
        queue.add("a")
    assert len(queue) == 1
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_a_key_that_changes_while_it_is_worked_on_is_worked_on_again_and_never_twice_at_once() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add("a")
    await queue.get()
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert len(queue) == 1


async def test_of_passes_that_take_long_one_is_in_a_turn_of_the_loop() -> None:
    """Sixteen workers in one turn would let nobody else speak, and cost a leader its lease."""
    queue: WorkQueue[str] = WorkQueue("test")
    turns, turn, done = list[int](), 0, asyncio.Event()

    async def reconcile(_: str) -> float | None:
        turns.append(turn)
        until = time.perf_counter() + 0.03
        while time.perf_counter() < until:
            pass
        if len(turns) == 16:
            done.set()
        return None

    workers = asyncio.ensure_future(run_workers(queue, reconcile, workers=16))
    await asyncio.sleep(0.01)  # all of them wait
    for number in range(16):
        queue.add(str(number))
    while not done.is_set():
        turn += 1
        await asyncio.sleep(0)
    workers.cancel()
    await asyncio.gather(workers, return_exceptions=True)
    assert len(set(turns)) == 16


async def test_a_failing_key_comes_back_and_does_not_stop_the_others() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    seen: list[str] = []
    done = asyncio.Event()

    async def reconcile(key: str) -> float | None:
        seen.append(key)
        if seen.count("bad") >= 3 and "good" in seen:
            done.set()
        if key == "bad":
            raise RuntimeError("no")
        return None

    queue.add("bad")
    queue.add("good")
    await work_until(queue, reconcile, done)
    assert seen.count("good") == 1


async def test_delays_double_with_each_failure_up_to_a_bound() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    delays = [queue.add_failed("a") for _ in range(12)]
    assert delays[:4] == pytest.approx([0.05, 0.1, 0.2, 0.4])
    assert delays[-1] == 30.0
    queue.forget_failures("a")
    assert queue.add_failed("a") == pytest.approx(0.05)
    queue.add("a")


async def test_the_earlier_of_two_delays_holds() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add_after("a", 1000)
    queue.add_after("a", 0)
    queue.add_after("a", 1000)
    assert await asyncio.wait_for(queue.get(), timeout=20) == "a"


async def test_each_reconcile_is_counted_with_its_result_and_its_time() -> None:
    now_s = 100.0
    queue: WorkQueue[str] = WorkQueue("test")
    registry = CollectorRegistry()
    seen: list[str] = []
    third = asyncio.Event()

    async def reconcile(key: str) -> float | None:
        nonlocal now_s
        seen.append(key)
        if len(seen) == 3:
            third.set()
            await asyncio.Event().wait()
        now_s += 2.0
        if key == "bad":
            raise RuntimeError("no")
        return None

    for key in ("good", "bad", "last"):
        queue.add(key)
    metrics = QueueMetrics(registry, clock=lambda: now_s)
    workers = asyncio.ensure_future(run_workers(queue, reconcile, workers=1, metrics=metrics))
    await asyncio.wait_for(third.wait(), 20)
    workers.cancel()
    await asyncio.gather(workers, return_exceptions=True)
    counts = [
        registry.get_sample_value("sunkpy_reconcile_total", {"queue": "test", "result": result})
        for result in ("ok", "error")
    ]
    assert counts == [1, 1]
    assert registry.get_sample_value("sunkpy_reconcile_seconds_sum", {"queue": "test"}) == 4.0


async def test_keys_are_given_out_as_urgent_as_they_were_when_they_were_added_last() -> None:
    urgency: dict[str, Urgency] = {}
    queue: WorkQueue[str] = WorkQueue("test", urgency=lambda key: urgency.get(key, Urgency.NONE))
    for key in ("a", "b", "c", "d", "e"):
        queue.add(key)
    for key, known in (("d", Urgency.SOON), ("c", Urgency.SOON), ("e", Urgency.FIRST)):
        urgency[key] = known
        queue.add(key)
    assert len(queue) == 5
    assert [await queue.get() for _ in range(5)] == ["e", "d", "c", "a", "b"]
    assert len(queue) == 0


async def test_a_key_that_waits_becomes_no_less_urgent() -> None:
    urgency = {"a": Urgency.FIRST, "b": Urgency.SOON}
    queue: WorkQueue[str] = WorkQueue("test", urgency=urgency.__getitem__)
    for key in ("b", "a"):
        queue.add(key)
    urgency["a"] = Urgency.NONE
    queue.add("a")
    assert [await queue.get() for _ in range(2)] == ["a", "b"]


async def test_who_takes_urgent_keys_alone_takes_both_kinds() -> None:
    urgency = {"a": Urgency.SOON, "b": Urgency.FIRST, "c": Urgency.NONE}
    queue: WorkQueue[str] = WorkQueue("test", urgency=urgency.__getitem__)
    for key in urgency:
        queue.add(key)
    assert [await queue.get(only_urgent=True) for _ in range(2)] == ["b", "a"]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await queue.get(only_urgent=True)
    assert await queue.get() == "c"


async def test_an_urgent_key_finds_a_worker_when_all_others_wait_for_something() -> None:
    urgency = {"urgent-1": Urgency.SOON, "urgent-2": Urgency.SOON}
    queue: WorkQueue[str] = WorkQueue("test", urgency=lambda key: urgency.get(key, Urgency.NONE))
    began: list[str] = []
    done, never, busy = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def reconcile(key: str) -> float | None:
        began.append(key)
        if key == "urgent-2":
            done.set()
        elif not key.startswith("urgent"):
            if len(began) == 4:
                busy.set()
            await never.wait()
        return None

    for key in [f"slow-{number}" for number in range(9)]:
        queue.add(key)
    workers = asyncio.ensure_future(run_workers(queue, reconcile, workers=4, only_urgent=1))
    await asyncio.wait_for(busy.wait(), timeout=20)
    queue.add("urgent-1")
    queue.add("urgent-2")
    await asyncio.wait_for(done.wait(), timeout=20)
    workers.cancel()
    await asyncio.gather(workers, return_exceptions=True)
    assert began == ["slow-0", "slow-1", "slow-2", "slow-3", "urgent-1", "urgent-2"]


async def test_a_key_that_is_added_for_what_may_wait_comes_last_until_it_is_added_for_more() -> None:
    queue: WorkQueue[str] = WorkQueue("test", urgency=lambda key: Urgency.SOON if key == "urgent" else Urgency.NONE)
    for key in ("a", "b", "urgent"):
        queue.add(key, at_most=Urgency.LAST)
    queue.add("new")
    queue.add("b")
    assert [await queue.get() for _ in range(4)] == ["new", "b", "a", "urgent"]


async def test_a_key_that_may_wait_still_comes_when_it_was_to_come_anyway() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add_after("due", 0.01)
    queue.add("due", at_most=Urgency.LAST)
    await asyncio.sleep(0.05)
    queue.add("new")
    assert [await queue.get() for _ in range(2)] == ["due", "new"]


def by_namespace(key: str) -> str:
    return key.partition("/")[0]


async def take(queue: WorkQueue[str], count: int) -> list[str]:
    return [await queue.get() for _ in range(count)]


async def test_groups_have_turns_and_each_gives_its_oldest_key_first() -> None:
    queue: WorkQueue[str] = WorkQueue("test", group=by_namespace)
    for number in range(2_000):
        queue.add(f"a/{number}")
    assert await take(queue, 2) == ["a/0", "a/1"]
    for key in ("b/0", "b/1", "c/0"):
        queue.add(key)
    assert await take(queue, 6) == ["a/2", "b/0", "c/0", "a/3", "b/1", "a/4"]


async def test_a_group_that_comes_back_waits_for_one_key_of_each_other_group() -> None:
    queue: WorkQueue[str] = WorkQueue("test", group=by_namespace)
    for key in ("a/0", "b/0", "a/1", "b/1", "b/2"):
        queue.add(key)
    assert await take(queue, 1) == ["a/0"]
    queue.add("c/0")
    queue.done("a/0")
    queue.add("a/0")
    assert await take(queue, 5) == ["b/0", "a/1", "c/0", "b/1", "a/0"]


@pytest.mark.parametrize(
    ("urgency", "order"),
    [
        pytest.param({}, ["a/0", "b/0", "a/1", "b/1"], id="all alike"),
        pytest.param({"b/1": Urgency.FIRST}, ["b/1", "a/0", "b/0", "a/1"], id="one before all"),
        pytest.param({"a/1": Urgency.SOON}, ["a/1", "b/0", "a/0", "b/1"], id="one before those of its group"),
        pytest.param({"a/0": Urgency.LAST, "b/0": Urgency.LAST}, ["a/1", "b/1", "a/0", "b/0"], id="some after all"),
        pytest.param(
            {"a/0": Urgency.SOON, "a/1": Urgency.SOON}, ["a/0", "b/0", "a/1", "b/1"], id="all of a group are urgent"
        ),
    ],
)
async def test_in_its_turn_a_group_gives_its_most_urgent_key(urgency: dict[str, Urgency], order: list[str]) -> None:
    queue: WorkQueue[str] = WorkQueue("test", urgency=lambda key: urgency.get(key, Urgency.NONE), group=by_namespace)
    for key in ("a/0", "a/1", "b/0", "b/1"):
        queue.add(key)
    assert await take(queue, 4) == order


async def test_also_who_takes_urgent_keys_alone_goes_round_by_group() -> None:
    queue: WorkQueue[str] = WorkQueue("test", urgency=lambda _: Urgency.SOON, group=by_namespace)
    for key in ("a/0", "a/1", "a/2", "b/0"):
        queue.add(key)
    assert [await queue.get(only_urgent=True) for _ in range(3)] == ["a/0", "b/0", "a/1"]
    assert await take(queue, 1) == ["a/2"]
