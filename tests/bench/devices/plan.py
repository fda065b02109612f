"""What a run does, by its seed: who comes and goes in each round, and what is broken meanwhile."""

from __future__ import annotations

import enum
import random
from collections.abc import Iterator

import msgspec

from tests.bench.chaos.schedule import Door

TOGETHER = 4
"""So many of two GPUs each fill the node."""

EVENT_EVERY = 5


class Event(enum.StrEnum):
    """What happens beside those who come and go."""

    PREEMPTION = enum.auto()
    REQUEUE = enum.auto()
    SCHEDULER = enum.auto()
    KUBELET = enum.auto()
    DRIVER = enum.auto()
    SLURMD = enum.auto()


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """`leaving` of those there go; then each of `coming` comes after its delay in seconds."""

    number: int
    leaving: int
    coming: tuple[tuple[Door, float], ...]
    event: Event | None


def rounds(count: int, *, seed: int) -> Iterator[Round]:
    """A round fills the node; who is more than there is room for waits in the queue and is dropped by the run."""
    rng = random.Random(seed)
    events = list(Event)
    for number in range(1, count + 1):
        if number % (EVENT_EVERY * len(events)) == 1:
            rng.shuffle(events)
        event = events[number // EVENT_EVERY % len(events)] if number % EVENT_EVERY == 0 else None
        coming = tuple((rng.choice((Door.POD, Door.SBATCH)), round(rng.uniform(0.0, 0.5), 2)) for _ in range(TOGETHER))
        yield Round(number=number, leaving=rng.randint(1, TOGETHER), coming=coming, event=event)
