"""A work queue of keys, as in client-go: a key waits only once, has one worker at a time, and comes back after a
failure.

Passes are level-triggered: the key says *what* to look at, never what happened, so many changes cost one pass.

Urgent keys are given out before others, and some workers take only urgent ones. So an urgent key does not wait for keys
that are not urgent, nor for passes over them.

Keys may belong to groups, which take turns: a key of one group waits for one key of each other group, not for
thousands.
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sunkpy.core.model.times import backoff_s

K = TypeVar("K", bound=Hashable)
Reconcile = Callable[[K], Awaitable[float | None]]
"""A function that makes one pass for a key, and returns after how many seconds to look again, if at all."""

_RETRY_FIRST_S, _RETRY_LAST_S = 0.05, 30.0
_TURN_S = 0.02


class Urgency(enum.IntEnum):
    """The order in which workers get keys: `FIRST` before all others, `LAST` after them.

    In between, groups take turns, and each group gives keys that are wanted `SOON` before those with `NONE`. Keys of
    one group and urgency are given out in the order in which they came.
    """

    FIRST = 0
    SOON = 1
    NONE = 2
    LAST = 3


class QueueMetrics:
    """Metrics of all queues of a process, labelled by queue name. `clock` measures how long a pass took."""

    def __init__(self, registry: CollectorRegistry, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._depth = Gauge(
            "sunkpy_queue_depth",
            "Objects (such as nodes or gangs) that wait for a worker. If the number grows, there is too much to do, or "
            "the "
            "apiserver or Slurm is slow",
            ["queue"],
            registry=registry,
        )
        self._reconciles = Counter(
            "sunkpy_reconcile",
            "How often a worker has handled an object of its queue, by `result`. `error`: the log has the reason",
            ["queue", "result"],
            registry=registry,
        )
        self._seconds = Histogram(
            "sunkpy_reconcile_seconds",
            ("Seconds that a worker takes to handle one object of its queue"),
            ["queue"],
            registry=registry,
        )

    def reconciled(self, queue: WorkQueue[K], result: str, *, started_s: float) -> None:
        """Count one pass that has ended, with the result `ok` or `error`."""
        self._reconciles.labels(queue.name, result).inc()
        self._seconds.labels(queue.name).observe(self.clock() - started_s)
        self._depth.labels(queue.name).set(len(queue))


def _none(_: object) -> Urgency:
    return Urgency.NONE


def _one(_: object) -> Hashable:
    return None


class _Waiting(Generic[K]):
    """The keys that wait for a worker, by urgency and group. Groups take turns: next is the group whose last turn is
    the longest ago.
    """

    def __init__(self, group_of: Callable[[K], Hashable]) -> None:
        self._group_of = group_of
        self._urgency: dict[K, Urgency] = {}
        self._lanes: dict[Urgency, OrderedDict[Hashable, OrderedDict[K, None]]] = {
            urgency: OrderedDict() for urgency in Urgency
        }
        self._turns: OrderedDict[Hashable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._urgency)

    @property
    def has_urgent(self) -> bool:
        """True if a worker that takes only urgent keys would find one."""
        return bool(self._lanes[Urgency.FIRST] or self._lanes[Urgency.SOON])

    def put(self, key: K, urgency: Urgency) -> bool:
        """Add a key, or make a key that waits more urgent. Return False if it already waits and is as urgent."""
        if (waits := self._urgency.get(key)) is not None:
            if waits <= urgency:
                return False
            self._drop(key)
        group = self._group_of(key)
        self._urgency[key] = urgency
        self._lanes[urgency].setdefault(group, OrderedDict())[key] = None
        if urgency in (Urgency.SOON, Urgency.NONE):
            self._turns.setdefault(group)
        return True

    def take(self, *, only_urgent: bool) -> K | None:
        """Remove the next key, from the group whose turn it is, and return it; None if there is none. `only_urgent`:
        urgent keys only.
        """
        if (lane := self._next_lane(only_urgent=only_urgent)) is None:
            return None
        key = next(iter(lane))
        self._drop(key)
        group = self._group_of(key)
        for lanes in self._lanes.values():
            if group in lanes:
                lanes.move_to_end(group)
        if group in self._turns:
            self._turns.move_to_end(group)
        return key

    def _next_lane(self, *, only_urgent: bool) -> OrderedDict[K, None] | None:
        """Return the keys from which the next one is taken, those of the group whose turn it is; None if none waits."""
        if self._turns and not (only_urgent or self._lanes[Urgency.FIRST]):
            group = next(iter(self._turns))
            return self._lanes[Urgency.SOON].get(group) or self._lanes[Urgency.NONE][group]
        kinds = (Urgency.FIRST, Urgency.SOON) if only_urgent else (Urgency.FIRST, Urgency.LAST)
        return next((lane for kind in kinds for lane in self._lanes[kind].values()), None)

    def _drop(self, key: K) -> None:
        group, groups = self._group_of(key), self._lanes[self._urgency.pop(key)]
        del groups[group][key]
        if not groups[group]:
            del groups[group]
        if group not in self._lanes[Urgency.SOON] and group not in self._lanes[Urgency.NONE]:
            self._turns.pop(group, None)


class WorkQueue(Generic[K]):
    """A queue of keys to work on. Its methods may be called only in the event loop's thread.

    `urgency` and `group` return the urgency and the group of a key that is added. The group of a key must not change.
    """

    def __init__(
        self, name: str, *, urgency: Callable[[K], Urgency] = _none, group: Callable[[K], Hashable] = _one
    ) -> None:
        self.name = name
        self._urgency = urgency
        self._waiting: _Waiting[K] = _Waiting(group)
        self._idle: OrderedDict[asyncio.Future[None], bool] = OrderedDict()
        self._working: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, tuple[float, asyncio.TimerHandle]] = {}
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: K, *, at_most: Urgency = Urgency.FIRST) -> None:
        """Let a worker have the key as soon as possible. If a worker has it now, it is given out once more afterwards.

        `at_most`: this time the key is no more urgent than that. It has no effect if a worker has the key now.
        """
        if at_most < Urgency.LAST:  # a key added as LAST still comes when its timer is due
            self._cancel_timer(key)
        if key in self._working:
            self._again.add(key)
            return
        urgency = max(self._urgency(key), at_most)
        if self._waiting.put(key, urgency):
            self._wake_one(urgent=urgency < Urgency.NONE)

    def _wake_one(self, *, urgent: bool) -> None:
        """Wake one idle worker. For an urgent key, prefer a worker that takes only urgent keys."""
        able = [idle for idle, only_urgent in self._idle.items() if urgent or not only_urgent]
        if able:
            chosen = next((idle for idle in able if self._idle[idle]), able[0])
            del self._idle[chosen]
            if not chosen.done():
                chosen.set_result(None)

    def add_after(self, key: K, delay_s: float) -> None:
        """Add the key after a delay. If it waits for an earlier delay already, that one counts."""
        loop = asyncio.get_running_loop()
        due = loop.time() + delay_s
        timer = self._timers.get(key)
        if timer is not None and timer[0] <= due:
            return
        self._cancel_timer(key)
        self._timers[key] = (due, loop.call_later(delay_s, self.add, key))

    def add_failed(self, key: K) -> float:
        """Add the key again after a delay that doubles with each failure, up to 30 s. Return the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay_s = backoff_s(failures, first_s=_RETRY_FIRST_S, last_s=_RETRY_LAST_S)
        self.add_after(key, delay_s)
        return delay_s

    def forget_failures(self, key: K) -> None:
        """Forget the failures of a key whose pass has ended well: its next failure starts from the shortest delay."""
        self._failures.pop(key, None)

    async def get(self, *, only_urgent: bool = False) -> K:
        """Wait for the next key, and return it. Call `done` with it when its work has ended."""
        while (key := self._waiting.take(only_urgent=only_urgent)) is None:
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle[idle] = only_urgent
            try:
                await idle
            finally:
                self._idle.pop(idle, None)
        self._working.add(key)
        if len(self):  # this worker may have been woken for another key
            self._wake_one(urgent=self._waiting.has_urgent)
        return key

    def done(self, key: K) -> None:
        """Note that the worker has finished the key. If the key was added meanwhile, it is given out again."""
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _cancel_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer[1].cancel()


class _Turns:
    """Measures how long the present turn of the event loop takes. In a turn that takes long, workers begin no other
    key; else all workers would run in it, and input would wait.
    """

    def __init__(self) -> None:
        self._began_s: float | None = None

    def is_over(self) -> bool:
        """True if this turn of the event loop has taken long, so that other tasks and input have to come first."""
        if self._began_s is None:
            self._began_s = time.perf_counter()
            asyncio.get_running_loop().call_soon(self._end)
        return time.perf_counter() - self._began_s > _TURN_S

    def _end(self) -> None:
        self._began_s = None


async def run_workers(
    queue: WorkQueue[K],
    reconcile: Reconcile[K],
    *,
    workers: int = 4,
    only_urgent: int = 0,
    metrics: QueueMetrics | None = None,
) -> None:
    """Run workers on the queue's keys until cancelled. If `reconcile` fails for a key, that is logged and the key is
    tried again later; other keys go on.

    Args:
        only_urgent: how many further workers take only urgent keys.
    """
    counted, turns = metrics or QueueMetrics(CollectorRegistry()), _Turns()
    async with asyncio.TaskGroup() as group:
        for number in range(workers + only_urgent):
            get = partial(queue.get, only_urgent=number >= workers)
            group.create_task(_work(queue, get, reconcile, counted, turns))


async def _work(
    queue: WorkQueue[K],
    get: Callable[[], Awaitable[K]],
    reconcile: Reconcile[K],
    metrics: QueueMetrics,
    turns: _Turns,
) -> None:
    while True:
        key = await get()
        while turns.is_over():  # noqa: ASYNC110 - the next turn is what it waits for
            await asyncio.sleep(0)
        started_s = metrics.clock()
        try:
            result = await _reconcile_once(queue, reconcile, key)
        finally:
            queue.done(key)
        metrics.reconciled(queue, result, started_s=started_s)
        await asyncio.sleep(0)  # a pass may never await: let other tasks run


async def _reconcile_once(queue: WorkQueue[K], reconcile: Reconcile[K], key: K) -> str:
    try:
        again_s = await reconcile(key)
    except Exception as error:
        retry_s = queue.add_failed(key)
        text = f"{type(error).__name__}: {error}"
        log = structlog.get_logger("queue").bind(queue=queue.name)
        log.warning("reconcile failed", key=key, retry_in_s=round(retry_s, 2), error=text)
        log.debug("trace", exc_info=error)
        return "error"
    queue.forget_failures(key)
    if again_s is not None:
        queue.add_after(key, again_s)
    return "ok"
