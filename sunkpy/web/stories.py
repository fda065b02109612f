"""The page's detail views of nodes, pods and jobs. Each view is read at most once in five seconds for all viewers with
the same rights.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

import cachetools
import msgspec

from sunkpy.core.gang.identity import PODS
from sunkpy.core.overview.drained import HeldNode, explain_held, find_held
from sunkpy.core.overview.job import JobFacts, explain_job
from sunkpy.core.overview.sight import Sight
from sunkpy.web.feed import Feed
from sunkpy.web.source import Story

_KEPT_S: Final = 5.0
_AT_ONCE: Final = 4
_REMEMBERED: Final = 512


class Stories:
    """Builds the detail views of the nodes, pods and jobs that one feed shows."""

    def __init__(self, feed: Feed, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._feed = feed
        self._known: cachetools.TTLCache[tuple[Hashable, ...], asyncio.Task[Story]]
        self._known = cachetools.TTLCache(_REMEMBERED, _KEPT_S, clock)
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def of_pod(self, namespace: str, name: str, sight: Sight) -> Story:
        """Return why a pod is in its state, from `PageSource.explain_pod`, or the same answer of the last seconds. The
        viewer must have the right to see the pods of this namespace.
        """
        all_pods, ask = sight.sees_all_pods, self._feed.source.explain_pod
        return await self._once(
            ("pod", namespace, name, all_pods), lambda: ask(namespace, name, sees_all_pods=all_pods)
        )

    async def of_node(self, name: str, sight: Sight) -> Story:
        """Return what holds a node back (drains, cordons), its history, and its devices if the viewer may see the pods
        of all namespaces.
        """
        all_pods, read = sight.sees_all_pods, self._feed.source.explain_node
        story = await self._once(("node", name, all_pods), lambda: read(name, sees_all_pods=all_pods))
        facts = self._feed.facts
        held = next((each for each in find_held(facts.pool) if each.node == name), None) if facts is not None else None
        first = held or HeldNode(node=name, slurm_node="", slurm="", holds=())
        first = msgspec.structs.replace(first, pods=tuple(filter(sight.sees_pod, first.pods)))
        return msgspec.structs.replace(story, explanations=(explain_held(first), *story.explanations))

    async def of_job(self, id_: int, sight: Sight) -> Story | None:
        """Return the explanation of a job, and of its pods if the viewer may see them.

        None if Slurm does not know the job, or if the viewer may not see it.
        """
        read = self._feed.facts
        if read is None:
            return None
        facts = JobFacts(id=id_, pool=read.pool, now_s=read.now.timestamp(), sight=sight)
        if facts.job is None or not sight.sees_jobs_of(facts.job.row.user):
            return None

        async def explain() -> Story:
            return Story(explanations=(await asyncio.to_thread(explain_job, facts),))

        own, gang = await self._once(("job", id_, sight), explain), facts.gang
        if gang is None or not sight.sees_pods_of(gang.namespace):
            return own
        all_pods, ask = sight.sees_all_pods, self._feed.source.explain_gang
        story = await self._once(
            (PODS, gang.namespace, gang.name, all_pods),
            lambda: ask(gang.namespace, gang.name, sees_all_pods=all_pods),
        )
        return msgspec.structs.replace(story, explanations=(*own.explanations, *story.explanations))

    async def _once(self, key: tuple[Hashable, ...], ask: Callable[[], Awaitable[Story]]) -> Story:
        if key not in self._known:

            async def asked() -> Story:
                async with self._turn:
                    return await ask()

            self._known[key] = asyncio.ensure_future(asked())
        return await asyncio.shield(self._known[key])
