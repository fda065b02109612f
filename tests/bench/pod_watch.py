"""Wait for what a watch of pods shows."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

from sunkpy.core.model.objects import Pod
from sunkpy.kube.informer import Informer


class PodWatch:
    """Some pods, as the apiserver tells of them."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self._informer = informer
        self._informer.add_handler(self._wake)
        self._changed = asyncio.Event()

    def _wake(self, _: Pod | None, __: Pod | None) -> None:
        self._changed.set()

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Watch while the block runs."""
        task = asyncio.create_task(self._informer.run())
        try:
            await self._informer.synced.wait()
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until(self, is_so: Callable[[], bool], *, what: str, timeout_s: float) -> float:
        """Wait until the watch has shown something; when that was (monotonic).

        Raises:
            TimeoutError: it has not; the text names `what`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"{what}: not so after {timeout_s:g} s") from None
        return time.monotonic()
