"""Writes into the status of NodeSets how many more nodes pending jobs need (`status.growth`).

It sends no request to Slurm, and uses the reads for the figures (`syncer.figures`). With each read, pending jobs are
looked at; between two reads only slurmd pods that come and go are counted. If Slurm cannot be read, nothing changes.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
import structlog

from sunkpy.core import names
from sunkpy.core.growth.lacks import Lack, find_lacks
from sunkpy.core.growth.survey import Members, devices_in_use, find_pools
from sunkpy.core.growth.wish import Wish, make_status, recall
from sunkpy.core.health.verification import verify_s
from sunkpy.core.model.growth import GrowthStatus
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.removal_token import token_of
from sunkpy.core.model.slurmd import is_slurmd, slurm_node_of
from sunkpy.core.model.times import parse_rfc3339, utc_now
from sunkpy.core.nodeset.potential import find_potential, most_nodes
from sunkpy.core.nodeset.removal import leaves
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.syncer.figures import Read
from sunkpy.syncer.metrics import SyncerMetrics

JOINS_WITHIN: Final = timedelta(minutes=10)
"""If a slurmd pod is older than this and Slurm cannot use its node, the node no longer counts as coming, and another
one is wanted, unless several nodes have never registered.
"""
_COUNT_EACH_S: Final = 1.0


class GrowthWriter:
    """Keeps `status.growth` of the NodeSets of a Slurm cluster: how many more nodes pending jobs need.

    `offered` returns for each NodeSet the resources of its nodes when it last had some, in the words of slurm.conf(5).
    `read_soon` is called when the next read of Slurm decides how many nodes are wanted.
    """

    def __init__(
        self,
        kube: Kube,
        events: EventRecorder,
        metrics: SyncerMetrics,
        *,
        cluster: str,
        nodesets: Informer[NodeSet],
        pods: Informer[Pod],
        read_soon: Callable[[], None],
        offered: Callable[[], Mapping[str, str]],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._kube = kube
        self._events = events
        self._metrics = metrics
        self._cluster = cluster
        self._nodesets = nodesets
        self._read_soon = read_soon
        self._offered = offered
        self._pods = pods
        self._now = now
        self._wishes: dict[str, Wish] = {}
        self._lacks: Mapping[str, Lack] = {}
        self._read_at: datetime | None = None
        self._written: dict[str, GrowthStatus | None] = {}
        self._shown: set[str] = set()
        self._came = asyncio.Event()
        self._log = structlog.get_logger("syncer")
        pods.add_handler(self._pod_changed)

    @property
    def is_on(self) -> bool:
        """True if a NodeSet of the cluster may get more nodes for pending jobs, or if NodeSets are not known yet."""
        return not self._nodesets.synced.is_set() or any(most_nodes(each) for each in self._own())

    async def run(self) -> None:
        """Until cancelled, lower the numbers of wanted nodes as slurmd pods come."""
        try:
            while True:
                await self._came.wait()
                self._came.clear()
                if self._wishes:
                    await self._publish(self._members())
                await asyncio.sleep(_COUNT_EACH_S)
        finally:
            self._metrics.wanted_nodes.clear()

    async def check(self, read: Read) -> None:
        """Find out from one more read of Slurm which nodes pending jobs lack, and write that into the status of each
        NodeSet.
        """
        members = self._members()
        if not any(each.potential for each in members.values()):
            self._wishes, self._lacks = {}, {}
            await self._publish(members)
            return
        if read.jobs is None:
            return
        self._read_at = self._now()
        before, self._lacks = self._lacks, await asyncio.to_thread(_find, read, list(members.values()))
        self._wishes = {
            uid: self._wish(uid).settle(self._lacks[each.name], len(each.nodes))
            for uid, each in members.items()
            if each.potential
        }
        if any(not wish.is_settled for wish in self._wishes.values()):
            self._read_soon()
        await self._publish(members)
        for nodeset in self._own():
            await self._tell(nodeset, before.get(nodeset.name, Lack()), self._lacks.get(nodeset.name, Lack()))

    def _wish(self, uid: str) -> Wish:
        if uid in self._wishes:
            return self._wishes[uid]
        status = next((nodeset.status.growth for nodeset in self._own() if nodeset.uid == uid), None)
        return recall(status)

    async def _tell(self, nodeset: NodeSet, before: Lack, now: Lack) -> None:
        """Write Events about jobs that no further node of the NodeSet would help, once two reads of Slurm in a row say
        so.
        """
        for job, why in now.never.items():
            if job in before.never:
                note = f"job {job} waits, and more nodes of this NodeSet do not help it: {why}"
                await self._events.warning(
                    nodeset, names.NODESET_KIND, reason="CannotGrow", action="ReadSlurm", note=note
                )

    # ------------------------------------------------------------------------------------------------------- NodeSets

    def _own(self) -> Iterable[NodeSet]:
        return [each for each in self._nodesets.values() if each.spec.cluster == self._cluster]

    def _members(self) -> dict[str, Members]:
        """Return by uid what each NodeSet has: its Slurm nodes, and which of them still join, are late to join, or will
        return.
        """
        nodes: defaultdict[str, set[str]] = defaultdict(set)
        joining: defaultdict[str, set[str]] = defaultdict(set)
        late: defaultdict[str, set[str]] = defaultdict(set)
        returning: defaultdict[str, set[str]] = defaultdict(set)
        now = self._now()
        for pod in self._pods.values():
            if not is_slurmd(pod) or leaves(pod):
                continue
            nodeset, name, token = pod.labels.get(names.LABEL_NODESET, ""), slurm_node_of(pod), token_of(pod)
            nodes[nodeset].add(name)
            since = pod.metadata.creation_timestamp
            if token is not None and token.is_rollout:
                returning[nodeset].add(name)
            elif token is None and since and now - parse_rfc3339(since) < _joins_within(pod):
                joining[nodeset].add(name)
            elif token is None and since and not pod.is_deleting:
                late[nodeset].add(name)
        records = find_potential(self._own(), {}, self._offered())
        offers = {each.nodeset: each.offer for each in records}
        return {
            each.uid: Members(
                name=each.name,
                potential=most_nodes(each),
                weight=each.spec.weight,
                features=frozenset((each.name, *each.spec.features)),
                offer=offers.get(each.name, ""),
                nodes=frozenset(nodes[each.name]),
                joining=frozenset(joining[each.name]),
                late=frozenset(late[each.name]),
                returning=frozenset(returning[each.name]),
            )
            for each in self._own()
        }

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or new is None or leaves(old) != leaves(new):
            self._came.set()

    # --------------------------------------------------------------------------------------------------------- writing

    async def _publish(self, members: Mapping[str, Members]) -> None:
        """Write `status.growth` of the NodeSets where it differs, and set the metric of wanted nodes."""
        self._written = {uid: status for uid, status in self._written.items() if uid in members}
        growing = {each.name for each in members.values() if each.potential}
        for gone in self._shown - growing:
            self._metrics.wanted_nodes.remove(gone)
        self._shown = growing
        for nodeset in self._own():
            each = members.get(nodeset.uid)
            if each is None:
                continue
            before = self._written.get(nodeset.uid, nodeset.status.growth)
            status = self._status(nodeset, each, before)
            if each.potential:
                self._metrics.wanted_nodes.labels(nodeset.name).set(status.wanted_nodes if status is not None else 0)
            if status != before:
                await self._write(nodeset, status)

    def _status(self, nodeset: NodeSet, each: Members, before: GrowthStatus | None) -> GrowthStatus | None:
        if not each.potential:
            return None
        wish, lack = self._wishes.get(nodeset.uid), self._lacks.get(each.name)
        if wish is None or lack is None:
            return before
        return make_status(
            wish,
            lack,
            there=len(each.nodes),
            potential=each.potential,
            before=before,
            now=self._now(),
            read_at=self._read_at if nodeset.spec.releases else None,
        )

    async def _write(self, nodeset: NodeSet, status: GrowthStatus | None) -> None:
        body = {"metadata": {"uid": nodeset.uid}, "status": {"growth": msgspec.to_builtins(status)}}
        try:
            await self._kube.patch(paths.status(paths.nodeset(*nodeset.key)), body)
        except errors.NotFound:
            return
        except errors.KubeError as error:
            self._log.warning("status.growth could not be written", nodeset=nodeset.name, error=str(error))
            return
        self._written[nodeset.uid] = status


def _find(read: Read, members: list[Members]) -> Mapping[str, Lack]:
    jobs = read.jobs or ()
    pools = find_pools(members, read.nodes, read.partitions, devices_in_use(jobs))
    waiting = [job.waits for job in jobs if job.waits is not None]
    return find_lacks(waiting, pools, {each.name: each.tier for each in read.partitions})


def _joins_within(pod: Pod) -> timedelta:
    """Return how long the node of a slurmd pod may take to join Slurm, with the time for the health check before
    slurmd.
    """
    return JOINS_WITHIN + timedelta(seconds=verify_s(pod) or 0)
