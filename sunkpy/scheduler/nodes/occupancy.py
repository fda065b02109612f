"""What pods without a Slurm job request on each node: daemons, the slurmd pod itself, pods of other schedulers.

Daemons that name our scheduler are among them: they are bound to their node without a job.

A node that is full of such pods must not be offered to a job: Slurm would start it, perhaps preempt others for it, and
the kubelet would refuse the pod. They are read once a minute, and whenever the pods of a node are listed for another
reason. An informer on every pod of a large cluster would take more memory than all else together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

import structlog

from sunkpy.core.model import matching
from sunkpy.core.model.objects import Pod
from sunkpy.core.placement.occupancy import is_without_job, taken_by_others
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError
from sunkpy.runtime.turns import in_turns
from sunkpy.scheduler.pods.neighbours import Neighbours
from sunkpy.scheduler.settings import TIMES


class Occupancy:
    """Requests by node. `own`: the pods that name our scheduler; `on_change` is called when the requests on a node have
    changed. `neighbours` get all pods that were listed.
    """

    def __init__(
        self,
        kube: Kube,
        *,
        scheduler_names: Collection[str],
        own: Callable[[], Iterable[Pod]],
        neighbours: Neighbours,
        on_change: Callable[[], None],
        each_s: float = TIMES.occupancy_each_s,
    ) -> None:
        self._kube = kube
        self._each_s = each_s
        self._own = own
        self._neighbours = neighbours
        self._scheduler_names = scheduler_names
        self._on_change = on_change
        self._taken: dict[str, matching.Amounts] = {}
        self._log = structlog.get_logger("occupancy")

    def taken(self, node: str) -> matching.Amounts:
        """What pods without a job request on the node."""
        return self._taken.get(node, {})

    def note(self, node: str, pods: Iterable[Pod]) -> None:
        """Every pod of one node was just listed."""
        pods = tuple(pods)
        self._neighbours.note(node, pods)
        taken = self._sum(pods)
        if taken != self.taken(node):
            self._taken[node] = taken
            self._on_change()

    async def run(self) -> None:
        """Keep reading until cancelled."""
        while True:
            try:
                await self.refresh()
            except KubeError as error:
                self._log.warning("pods not listed", error=str(error))
            await asyncio.sleep(self._each_s)

    async def refresh(self) -> None:
        """Read all nodes.

        Raises:
            KubeError: the pods could not be listed.
        """
        ours = ",".join(f"spec.schedulerName!={name}" for name in self._scheduler_names)
        others = f"{ours},status.phase!=Succeeded,status.phase!=Failed"
        by_node: dict[str, list[Pod]] = {}
        listed = await self._kube.list_objects(paths.ALL_PODS, Pod, field_selector=others)
        for pod in (*listed, *filter(is_without_job, self._own())):
            if pod.spec.node_name:
                by_node.setdefault(pod.spec.node_name, []).append(pod)
        self._neighbours.only_on(by_node.keys())
        taken: dict[str, matching.Amounts] = {}
        async for node, pods in in_turns(by_node.items()):
            self._neighbours.note(node, pods)
            taken[node] = self._sum(pods)
        if taken != self._taken:
            self._taken = taken
            self._on_change()

    def _sum(self, pods: Iterable[Pod]) -> matching.Amounts:
        return taken_by_others(pods, scheduler_names=self._scheduler_names)
