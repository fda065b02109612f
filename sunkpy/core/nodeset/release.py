"""How idle nodes are left to autoscalers: drained in Slurm, then without a slurmd pod until jobs want nodes.

No autoscaler removes a node that has a slurmd pod: the pod is pinned to its node, so the Cluster Autoscaler finds no
other place for it, and its disruption budget allows no eviction. So the pod is deleted first, like any slurmd pod only
after the syncer has answered that the node is idle. Then the Node is empty, and the simplest rule of each autoscaler
removes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Final

from sunkpy.core import names
from sunkpy.core.model.growth import GrowthStatus
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.removal_token import token_of
from sunkpy.core.model.times import parse_rfc3339
from sunkpy.core.nodeset.feasibility import departure
from sunkpy.core.nodeset.node_mark import Changes
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.nodeset.verdict import PodVerdict, Trait
from sunkpy.core.nodeset.world import World

_KNOWN_FOR: Final = timedelta(minutes=5)


def choose_idle(world: World, gone: Collection[str]) -> list[str]:
    """Return uids of the pods to remove so that autoscalers can remove their idle nodes; none while a job wants nodes.
    Pods in `gone`, which go for another reason, are left out, and so are marked pods on which a job runs again.
    """
    nodeset, survey = world.nodeset, world.survey
    if not nodeset.spec.releases or not _is_spare(nodeset.status.growth, world.now):
        return []
    marked = [uid for uid, judged in survey.those(Trait.MARKED).items() if _is_released(judged)]
    idle = [uid for uid in survey.those(Trait.IDLE) if uid in world.idle]
    return [uid for uid in (*marked, *idle) if uid not in gone]


def _is_spare(growth: GrowthStatus | None, now: datetime) -> bool:
    """True if the syncer reported in the last five minutes that no job wants more nodes or waits for the idle ones.

    A report time far in the future comes from a clock that is ahead, and does not show how old the report is: False.
    """
    if growth is None or not growth.seen:
        return False
    return not (growth.wanted_nodes or growth.held) and abs(now - parse_rfc3339(growth.seen)) < _KNOWN_FOR


def _is_released(judged: PodVerdict) -> bool:
    token = token_of(judged.pod)
    return token is not None and token.is_release and Trait.RUNS not in judged.traits


def decide_released(pod: Pod | None) -> Changes:
    """Return the change of the Node's annotation that says which NodeSet has left the Node to autoscalers. It is set
    while the Node's slurmd pod is being removed because the node is idle. While the Node has any other slurmd pod, the
    annotation is removed. Without a slurmd pod it stays as it is.
    """
    if pod is None:
        return {}
    token = token_of(pod)
    is_released = token is not None and token.is_release
    owner = f"{pod.metadata.namespace}/{pod.labels.get(names.LABEL_NODESET, '')}"
    return {names.ANNOTATION_RELEASED: owner if is_released else None}


def released_nodes(nodeset: NodeSet, nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that the NodeSet has left to autoscalers and can use again: they are Ready, not cordoned, and
    not about to be removed.
    """
    return [
        node
        for node in nodes
        if node.annotations.get(names.ANNOTATION_RELEASED) == nodeset.title
        and node.is_ready
        and not node.spec.unschedulable
        and departure(node) is None
    ]
