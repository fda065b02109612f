"""Which outdated pods a rolling update takes next.

Two limits hold at once. *Availability*: a pod that is available is taken only while fewer than `maxUnavailable` are
not. *Reach*: at most `maxUnavailable` pods are under way (marked, going, or new and not yet available), whatever state
they were in before: so a template that never becomes ready stops after `maxUnavailable` pods, and an outage of Slurm,
in which every pod is unavailable, does not let the roll mark the whole set.

A pod that *cannot* move (`is_stranded`: its machine is dead, or somebody holds it DOWN in Slurm) would use up both for
ever. Such pods are set aside, up to a fifth of the set or one; more than that is no accident, and they count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.removal_token import token_of
from sunkpy.core.nodeset.removal import RemovalCause, removal_order
from sunkpy.core.nodeset.spec import UpdateStrategy


def max_unavailable(strategy: UpdateStrategy, total: int) -> int:
    """The limit in pods: percentages are rounded up, and it is never below one (as for DaemonSets)."""
    limit = strategy.rolling_update.max_unavailable
    if isinstance(limit, str):
        percent = int(limit.removesuffix("%") or 0)
        limit = -(-total * percent // 100)
    return max(limit, 1)


def is_available(pod: Pod) -> bool:
    """Ready (which includes: registered in Slurm) and to stay."""
    return pod.is_condition_true("Ready") and not pod.is_deleting and token_of(pod) is None


def is_updated(pod: Pod, wanted_hash: str) -> bool:
    """Made from the template as it is now; what the node offered then does not count."""
    return pod.labels.get(names.LABEL_TEMPLATE_HASH) == wanted_hash


def is_stranded(pod: Pod, node: Node | None) -> bool:
    """Not available, and no roll can change it: the kubelet is gone, or Slurm holds the node for somebody else.

    What Slurm refuses as invalid may be the template's fault, and does not excuse it.
    """
    if is_available(pod):
        return False
    held = pod.condition(names.CONDITION_CORDON)
    is_held = held is not None and held.status == "True" and held.reason != names.REASON_INVALID
    return node is None or not node.is_ready or is_held


def choose_for_rollout(
    pods: Sequence[Pod],
    *,
    is_current: Callable[[Pod], bool],
    total: int,
    limit: int,
    stranded: Collection[str] = (),
) -> frozenset[str]:
    """Names of the pods that the roll wants gone: those it has already marked, and the next ones within `limit`.

    Args:
        pods: the pods that would stay if there were no roll.
        is_current: made from the template as it is now, for a node that offers what it did.
        total: how many pods there should be; one that is missing counts as unavailable and as under way.
        limit: `maxUnavailable` in pods.
        stranded: names of pods that cannot move. Those that the roll has marked stay marked.
    """
    outdated = sorted((pod for pod in pods if not is_current(pod)), key=removal_order)
    aside = frozenset(sorted(stranded)[: max(1, -(-total // 5))])
    movable = [pod for pod in pods if pod.name not in aside]
    marked = [pod.name for pod in outdated if _is_marked_by_roll(pod)]
    chosen = {name for name in marked if name in aside} | set([name for name in marked if name not in aside][:limit])
    missing = max(total - len(pods), 0)
    unavailable = missing + sum(not is_available(pod) for pod in movable)
    under_way = missing + len(chosen - aside) + sum(_is_on_the_way(pod, is_current) for pod in movable)
    for pod in outdated:
        if pod.name in marked or pod.is_deleting or pod.name in stranded:
            continue
        if under_way >= limit or (is_available(pod) and unavailable >= limit):
            break
        chosen.add(pod.name)
        under_way += 1
        unavailable += is_available(pod)
    return frozenset(chosen)


def _is_marked_by_roll(pod: Pod) -> bool:
    token = token_of(pod)
    return token is not None and token.cause == RemovalCause.ROLLOUT and not pod.is_deleting


def _is_on_the_way(pod: Pod, is_current: Callable[[Pod], bool]) -> bool:
    """Between the old pod, already told to stop, and the new one, not yet ready."""
    return not is_available(pod) if is_current(pod) else pod.is_deleting
