"""What is said of one thing: asked once for all who look at it within a few seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import cachetools
import msgspec

from sunkpy.core.gang.identity import GangId, parse_comment
from sunkpy.core.overview.drained import HeldNode, explain_held, find_held
from sunkpy.core.overview.queue import PODS, QueuedJob, Waiting
from sunkpy.core.page.job import explain_job
from sunkpy.core.page.rows import WAITING
from sunkpy.core.page.sight import HIDDEN, Sight
from sunkpy.web.feed import Feed
from sunkpy.web.source import Story

_KEPT_S: Final = 5.0
_AT_ONCE: Final = 4
_REMEMBERED: Final = 512


class Stories:
    """Of nodes, pods and jobs of one feed."""

    def __init__(self, feed: Feed, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._feed = feed
        self._known: cachetools.TTLCache[tuple[str, ...], asyncio.Task[Story]]
        self._known = cachetools.TTLCache(_REMEMBERED, _KEPT_S, clock)
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def of_pod(self, namespace: str, name: str) -> Story:
        """See `Source`."""
        return await self._once(("pod", namespace, name), lambda: self._feed.source.explain_pod(namespace, name))

    async def of_node(self, name: str, sight: Sight) -> Story:
        """Who holds it, from what was read already; then its devices, where all pods may be named, and its past."""
        all_pods = sight.namespaces is None
        read = self._feed.source.explain_node
        story = await self._once(("node", name, str(all_pods)), lambda: read(name, with_devices=all_pods))
        facts = self._feed.facts
        held = next((each for each in find_held(facts.pool) if each.node == name), None) if facts is not None else None
        first = held or HeldNode(node=name, slurm_node="", slurm="", holds=())
        first = msgspec.structs.replace(first, pods=tuple(pod for pod in first.pods if _is_seen(pod, sight)))
        return msgspec.structs.replace(story, explanations=(explain_held(first), *story.explanations))

    def job(self, id_: int) -> QueuedJob | None:
        """A job that was read."""
        facts = self._feed.facts
        jobs = facts.pool.jobs if facts is not None else None
        return next((job for job in jobs or () if job.row.id == id_), None)

    async def of_job(self, job: QueuedJob, gang: GangId | None) -> Story:
        """The job as Slurm has it; of a `gang` that may be shown, what it waits for or has."""
        key, queue = str(job.row.id), self._feed.tables[WAITING]
        waiting, own = queue.get(key), None
        if isinstance(waiting, Waiting):
            own = msgspec.structs.replace(waiting, place=list(queue).index(key) + 1)
        name = HIDDEN if parse_comment(job.row.comment) is not None else job.name
        first = explain_job(job, own, name=str(gang) if gang is not None else name)
        if gang is None:
            return Story(explanations=(first,))
        read = self._feed.source.explain_gang
        story = await self._once((PODS, gang.namespace, gang.name), lambda: read(gang.namespace, gang.name))
        return msgspec.structs.replace(story, explanations=(first, *story.explanations))

    async def _once(self, key: tuple[str, ...], ask: Callable[[], Awaitable[Story]]) -> Story:
        if key not in self._known:

            async def asked() -> Story:
                async with self._turn:
                    return await ask()

            self._known[key] = asyncio.ensure_future(asked())
        return await asyncio.shield(self._known[key])


def _is_seen(pod: str, sight: Sight) -> bool:
    return sight.sees_pods_of(pod.partition("/")[0])
