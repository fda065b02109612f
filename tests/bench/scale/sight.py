"""What the bench sees of the slurmd pods, by one watch, and when it saw it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

from sunkpy.core import names
from sunkpy.core.model.objects import Pod, PodSpec, PodStatus
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer


class Pods:
    """The pods of a namespace: how many, and which of them their Slurm node has drained."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._informer = Informer(kube, paths.pods(namespace), Pod, keep=_kept)
        self._informer.add_handler(self._see)
        self._changed = asyncio.Event()
        self.told: set[str] = set()
        self.drained: set[str] = set()
        self.cordoned: set[str] = set()

    def __len__(self) -> int:
        return len(self._informer)

    @property
    def names(self) -> list[str]:
        """Of all that are there."""
        return [pod.name for pod in self._informer.values()]

    def _see(self, old: Pod | None, new: Pod | None) -> None:
        for type_, having in ((names.CONDITION_DRAIN, self.drained), (names.CONDITION_CORDON, self.cordoned)):
            if new is not None and new.is_condition_true(type_):
                having.add(new.name)
            elif old is not None:
                having.discard(old.name)
        if new is not None and new.condition(names.CONDITION_DRAIN) is not None:
            self.told.add(new.name)
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


def _kept(pod: Pod) -> Pod:
    return Pod(metadata=pod.metadata, spec=PodSpec(), status=PodStatus(conditions=pod.status.conditions))
