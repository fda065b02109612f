"""Waits for changes of pods in a watch."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

from sunkpy.core.model.objects import Pod
from sunkpy.kube.informer import Informer
from tests.bench.ground import PATIENCE_S, beside


class PodWatch:
    def __init__(self, informer: Informer[Pod]) -> None:
        self._informer = informer
        self._informer.add_handler(self._wake)
        self._changed = asyncio.Event()

    def _wake(self, _: Pod | None, __: Pod | None) -> None:
        self._changed.set()

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        async with beside(self._informer.run()):
            await self._informer.synced.wait()
            yield

    async def until(self, is_so: Callable[[], bool], *, what: str, timeout_s: float = PATIENCE_S) -> float:
        """Wait until `is_so` is true after an event of the watch. Return when that was (monotonic).

        Raises:
            TimeoutError: it did not become true; the text names `what`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"{what}: not so after {timeout_s:g} s") from None
        return time.monotonic()
