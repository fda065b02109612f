"""What a watch showed, and when: the evidence that the end-to-end tests and the benches judge by.

Times are seconds since the epoch by this machine's clock, taken when the event arrived here. All nodes of a devcluster
share that clock, so they compare with what `date` prints inside pods and jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Generic, NamedTuple, TypeVar

from sunkpy.core.model.objects import KubeObject
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer

T = TypeVar("T", bound=KubeObject)


class Sighting(NamedTuple, Generic[T]):
    """One change: `new` is None when the object went."""

    at_s: float
    old: T | None
    new: T | None

    @property
    def name(self) -> str:
        """Name of the object."""
        seen = self.new or self.old
        assert seen is not None
        return seen.name


def named(name: str, is_so: Callable[[T], bool]) -> Callable[[Sighting[T]], bool]:
    """The change after which the object of a name is so."""
    return lambda seen: seen.name == name and seen.new is not None and is_so(seen.new)


class Timeline(Generic[T]):
    """All changes of a collection since the watch began, the first list included."""

    def __init__(self) -> None:
        self.sightings: list[Sighting[T]] = []
        self._changed = asyncio.Event()

    def record(self, old: T | None, new: T | None) -> None:
        """Handler of the informer."""
        self.sightings.append(Sighting(time.time(), old, new))
        self._changed.set()

    async def first(
        self, is_it: Callable[[Sighting[T]], bool], *, what: str, timeout_s: float, since_s: float = 0.0
    ) -> Sighting[T]:
        """The earliest change at or after `since_s` for which `is_it` holds; waits for it.

        Raises:
            TimeoutError: it never came; the text names `what`.
        """
        begin = 0
        deadline = time.monotonic() + timeout_s
        while True:
            self._changed.clear()
            for sighting in self.sightings[begin:]:
                if sighting.at_s >= since_s and is_it(sighting):
                    return sighting
            begin = len(self.sightings)
            try:
                async with asyncio.timeout(max(deadline - time.monotonic(), 0.0)):
                    await self._changed.wait()
            except TimeoutError:
                raise TimeoutError(f"{what}: not seen in {timeout_s:.0f} s") from None

    async def gone(self, name: str, *, timeout_s: float = 60.0, since_s: float = 0.0) -> Sighting[T]:
        """The deletion of an object."""
        return await self.first(
            lambda seen: seen.new is None and seen.name == name,
            what=f"deletion of {name}",
            timeout_s=timeout_s,
            since_s=since_s,
        )

    def deletions(self) -> list[str]:
        """Names of all objects that went, in order."""
        return [sighting.name for sighting in self.sightings if sighting.new is None]


@contextlib.asynccontextmanager
async def watching(kube: Kube, path: str, type_: type[T], *, label_selector: str = "") -> AsyncIterator[Timeline[T]]:
    """Watch a collection while the block runs."""
    informer = Informer(kube, path, type_, label_selector=label_selector)
    timeline: Timeline[T] = Timeline()
    informer.add_handler(timeline.record)
    task = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(20):
            await informer.synced.wait()
        yield timeline
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
