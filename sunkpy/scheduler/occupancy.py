"""What pods that Slurm does not know take of each node: daemons, the slurmd pod itself, strangers.

Daemons that name our scheduler are among them: they are bound to their node without a job.

A node that is full of them must not be offered to a job: Slurm would start it, perhaps at the cost of others, only to
have the kubelet refuse the pod. Read once a minute, and whenever the pods of a node are listed for another reason:
an informer on every pod of a large cluster would cost more memory than everything else together.
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
from sunkpy.scheduler.neighbours import Neighbours

_EACH_S = 60.0
_A_TURN = 200


class Occupancy:
    """Requests of other pods by node. `own`: the pods that name our scheduler; `on_change` is called when a node's
    requests have changed. `neighbours` hear of all pods that were listed.
    """

    def __init__(
        self,
        kube: Kube,
        *,
        scheduler_names: Collection[str],
        own: Callable[[], Iterable[Pod]],
        neighbours: Neighbours,
        on_change: Callable[[], None],
    ) -> None:
        self._kube = kube
        self._own = own
        self._neighbours = neighbours
        self._scheduler_names = scheduler_names
        self._on_change = on_change
        self._taken: dict[str, matching.Amounts] = {}
        self._log = structlog.get_logger("occupancy")

    def taken(self, node: str) -> matching.Amounts:
        """What others take of the node."""
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
            await asyncio.sleep(_EACH_S)

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
        for number, (node, pods) in enumerate(by_node.items()):
            self._neighbours.note(node, pods)
            taken[node] = self._sum(pods)
            if number % _A_TURN == 0:
                await asyncio.sleep(0)  # the pods of thousands of nodes would keep everybody else from working
        if taken != self._taken:
            self._taken = taken
            self._on_change()

    def _sum(self, pods: Iterable[Pod]) -> matching.Amounts:
        return taken_by_others(pods, scheduler_names=self._scheduler_names)
