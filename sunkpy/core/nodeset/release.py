"""Idle nodes are left to autoscalers: drained, then without a slurmd pod, until jobs want nodes.

No autoscaler takes a node with a slurmd pod by itself. It is pinned to its node, so the Cluster Autoscaler finds no
other place for it, and its disruption budget allows nothing. So the pod goes first, against a receipt as ever, and an
empty Node is removed by each autoscaler's plainest rule.
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
    """Uids of the pods whose nodes are left to autoscalers, as long as no job wants nodes. Pods that are `gone`, or on
    which a job has run since they were marked, are left out.
    """
    nodeset, survey = world.nodeset, world.survey
    if not nodeset.spec.releases or not _is_spare(nodeset.status.growth, world.now):
        return []
    marked = [uid for uid, judged in survey.those(Trait.MARKED).items() if _is_released(judged)]
    idle = [uid for uid in survey.those(Trait.IDLE) if uid in world.idle]
    return [uid for uid in (*marked, *idle) if uid not in gone]


def _is_spare(growth: GrowthStatus | None, now: datetime) -> bool:
    """No job wants nodes or waits for the idle ones, as far as the syncer has lately read them.

    A time in the future comes from a clock that is ahead. It does not show how old the value is.
    """
    if growth is None or not growth.seen:
        return False
    return not (growth.wanted_nodes or growth.held) and abs(now - parse_rfc3339(growth.seen)) < _KNOWN_FOR


def _is_released(judged: PodVerdict) -> bool:
    token = token_of(judged.pod)
    return token is not None and token.is_release and Trait.RUNS not in judged.traits


def decide_released(pod: Pod | None) -> Changes:
    """The annotation that the Node keeps while its slurmd pod is being released and after that, until the next pod
    comes.
    """
    if pod is None:
        return {}
    token = token_of(pod)
    is_released = token is not None and token.is_release
    owner = f"{pod.metadata.namespace}/{pod.labels.get(names.LABEL_NODESET, '')}"
    return {names.ANNOTATION_RELEASED: owner if is_released else None}


def released_nodes(nodeset: NodeSet, nodes: Iterable[Node]) -> list[Node]:
    """The nodes that the NodeSet has left to autoscalers and that can be used again."""
    return [
        node
        for node in nodes
        if node.annotations.get(names.ANNOTATION_RELEASED) == nodeset.title
        and node.is_ready
        and not node.spec.unschedulable
        and departure(node) is None
    ]
