"""What pods that were told to go are told besides: the Event, and by which job, once that has been found out.

Nothing waits for it, and an eviction least of all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec
import structlog

from sunkpy.core.gang.ends import EndCause, named
from sunkpy.core.model.objects import Key, Pod
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.kube.errors import KubeError
from sunkpy.scheduler.end_causes import EndCauses
from sunkpy.scheduler.fan_out import fan_out
from sunkpy.scheduler.pod_writer import PodWriter

_AT_ONCE = 4


class Farewell(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that has to go from `node` since its job ended. `more` is said after the cause; `is_evicted` or, if not,
    its owner takes it back.
    """

    pod: Pod
    job: JobId | None
    node: str
    cause: EndCause
    more: str = ""
    is_evicted: bool = True


class Farewells:
    """Told in the order in which they came. `find` gives a pod as the watch has it."""

    def __init__(self, *, causes: EndCauses, pods: PodWriter, find: Callable[[Key], Pod | None]) -> None:
        self._causes = causes
        self._pods = pods
        self._find = find
        self._waiting: asyncio.Queue[Farewell] = asyncio.Queue()
        self._log = structlog.get_logger("scheduler")

    def add(self, farewells: Iterable[Farewell]) -> None:
        """These pods were told to go."""
        for farewell in farewells:
            self._waiting.put_nowait(farewell)

    async def run(self) -> None:
        """Tell until cancelled; those that came while others were told are told together."""
        while True:
            together = [await self._waiting.get()]
            while not self._waiting.empty():
                together.append(self._waiting.get_nowait())
            try:
                await self._tell_all(together)
            except KubeError as error:
                self._log.warning("not told by whom it was preempted", error=str(error))

    async def _tell_all(self, together: Sequence[Farewell]) -> None:
        preempted = {each.job: each.node for each in together if each.cause.is_preemption and each.job is not None}
        preemptors = await self._causes.by_whom(preempted) if preempted else {}
        told = [partial(self._tell, each, preemptors.get(each.job) if each.job else None) for each in together]
        await fan_out(told, at_once=_AT_ONCE)

    async def _tell(self, farewell: Farewell, preemptor: SlurmJob | None) -> None:
        pod, cause = farewell.pod, named(farewell.cause, preemptor)
        message = f"{cause.message}{farewell.more}"
        if not farewell.is_evicted:
            await self._pods.warn(pod, reason=cause.reason, action="Suspending", note=message)
            return
        await self._pods.warn(pod, reason=cause.reason, action="Evicting", note=f"{message}; the pod is evicted")
        seen = self._find(pod.key)
        if preemptor is not None and seen is not None and seen.uid == pod.uid:
            await self._pods.explain_disruption(seen, reason=cause.reason, message=message)
