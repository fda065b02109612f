"""Events for evicted pods, sent after the eviction: why, and by which job, once that has been found out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec
import structlog

from sunkpy.core.gang.job.ends import EndCause, named
from sunkpy.core.model.objects import Key, Pod
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.kube.errors import KubeError
from sunkpy.kube.events import EventRecorder
from sunkpy.runtime.fan_out import fan_out
from sunkpy.scheduler.jobs.end_causes import EndCauses
from sunkpy.scheduler.pods.writer import PodWriter

_AT_ONCE = 4


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that has to leave `node` since its job ended. `more` is said after the cause. It `is_evicted`, or its owner
    was suspended and takes it back.
    """

    pod: Pod
    job: JobId | None
    node: str
    cause: EndCause
    more: str = ""
    is_evicted: bool = True


class EvictionEvents:
    """Sent in the order in which they came. `find` gives a pod as the watch has it."""

    def __init__(
        self, *, causes: EndCauses, events: EventRecorder, pods: PodWriter, find: Callable[[Key], Pod | None]
    ) -> None:
        self._causes = causes
        self._events = events
        self._pods = pods
        self._find = find
        self._waiting: asyncio.Queue[Eviction] = asyncio.Queue()
        self._log = structlog.get_logger("scheduler")

    def add(self, evictions: Iterable[Eviction]) -> None:
        """These pods were evicted, or their owner was suspended."""
        for eviction in evictions:
            self._waiting.put_nowait(eviction)

    async def run(self) -> None:
        """Send until cancelled; evictions that came while others were sent share one search for preemptors."""
        while True:
            together = [await self._waiting.get()]
            while not self._waiting.empty():
                together.append(self._waiting.get_nowait())
            try:
                await self._explain_all(together)
            except KubeError as error:
                self._log.warning("Events of evictions not written", error=str(error))

    async def _explain_all(self, together: Sequence[Eviction]) -> None:
        preempted = {each.job: each.node for each in together if each.cause.is_preemption and each.job is not None}
        preemptors = await self._causes.by_whom(preempted) if preempted else {}
        calls = [partial(self._explain, each, preemptors.get(each.job) if each.job else None) for each in together]
        await fan_out(calls, at_once=_AT_ONCE)

    async def _explain(self, eviction: Eviction, preemptor: SlurmJob | None) -> None:
        pod, cause = eviction.pod, named(eviction.cause, preemptor)
        message = f"{cause.message}{eviction.more}"
        action, note = (
            ("Evicting", f"{message}; the pod is evicted") if eviction.is_evicted else ("Suspending", message)
        )
        await self._events.warning(pod, "Pod", reason=cause.reason, action=action, note=note)
        seen = self._find(pod.key)
        if eviction.is_evicted and preemptor is not None and seen is not None and seen.uid == pod.uid:
            await self._pods.explain_disruption(seen, reason=cause.reason, message=message)
