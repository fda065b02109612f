"""Writes Events about NodeSets for whose nodes many jobs wait. It uses the reads of Slurm for the metrics
(`syncer.figures`).

NodeSets are listed only when such an Event is due: at most every ten minutes.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable

import structlog

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.slurmd import is_slurmd, slurm_node_of
from sunkpy.core.nodeset.jobs_waiting import WAITED_S, WaitingReport, event_text, find_waiting, make_report
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.syncer.figures import Read


class QueueWatch:
    """Reports NodeSets for whose nodes many jobs wait. For each of them it remembers since when jobs wait, and the last
    report. `clock`: monotonic, in seconds.
    """

    def __init__(
        self,
        kube: Kube,
        events: EventRecorder,
        *,
        namespace: str,
        pods: Informer[Pod],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._events = events
        self._namespace = namespace
        self._pods = pods
        self._clock = clock
        self._since_s: dict[str, float] = {}
        self._reported: dict[str, WaitingReport] = {}
        self._log = structlog.get_logger("syncer")

    async def check(self, read: Read) -> None:
        """Find the jobs that wait in one more read of Slurm, and write the Events that are due."""
        if read.jobs is None:
            return
        waiting = await asyncio.to_thread(find_waiting, read.jobs, read.partitions, read.nodes, self._names())
        now_s = self._clock()
        self._since_s = {nodeset: self._since_s.get(nodeset, now_s) for nodeset in waiting}
        due = {nodeset for nodeset, since_s in self._since_s.items() if now_s - since_s >= WAITED_S}
        self._since_s |= dict.fromkeys(due, now_s)
        for nodeset in await self._read(due):
            report = make_report(waiting[nodeset.name], nodeset, now_s)
            if report.is_news(self._reported.get(nodeset.name)):
                self._reported[nodeset.name] = report
                note = event_text(waiting[nodeset.name], report)
                await self._events.normal(
                    nodeset, names.NODESET_KIND, reason="JobsWaiting", action="ReadSlurm", note=note
                )

    def _names(self) -> dict[str, set[str]]:
        """Return the Slurm nodes of each NodeSet, without those that the operator removes or replaces."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for pod in self._pods.values():
            if is_slurmd(pod) and not pod.is_deleting and names.ANNOTATION_PENDING_DELETION not in pod.annotations:
                found[pod.labels.get(names.LABEL_NODESET, "")].add(slurm_node_of(pod))
        return found

    async def _read(self, due: set[str]) -> list[NodeSet]:
        if not due:
            return []
        try:
            listed = await self._kube.list_objects(paths.nodesets(self._namespace), NodeSet)
        except errors.KubeError as error:
            self._log.warning("NodeSets cannot be read: no Event about jobs that wait", error=str(error))
            return []
        return [nodeset for nodeset in listed if nodeset.name in due]
