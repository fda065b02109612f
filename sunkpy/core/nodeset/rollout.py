"""Which outdated pods a rolling update takes next.

Two limits hold at once. *Availability*: a pod that is available is taken only while fewer than `maxUnavailable` are
not. *Reach*: at most `maxUnavailable` pods are under way (marked, going, or new and not yet available), whatever state
they were in before: so a template that never becomes ready stops after `maxUnavailable` pods, and an outage of Slurm,
in which every pod is unavailable, does not let the roll mark the whole set.
"""

from __future__ import annotations

from collections.abc import Sequence

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
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


def choose_for_rollout(pods: Sequence[Pod], *, wanted_hash: str, total: int, limit: int) -> frozenset[str]:
    """Names of the pods that the roll wants gone: those it has already marked, and the next ones within `limit`.

    Args:
        pods: the pods that would stay if there were no roll.
        wanted_hash: the hash of the template as it is now.
        total: how many pods there should be; one that is missing counts as unavailable and as under way.
        limit: `maxUnavailable` in pods.
    """
    outdated = sorted((pod for pod in pods if not is_updated(pod, wanted_hash)), key=removal_order)
    marked = [pod.name for pod in outdated if _is_marked_by_roll(pod)]
    chosen = set(marked[:limit])
    missing = max(total - len(pods), 0)
    unavailable = missing + sum(not is_available(pod) for pod in pods)
    under_way = missing + len(chosen) + sum(_is_on_the_way(pod, wanted_hash) for pod in pods)
    for pod in outdated:
        if pod.name in marked or pod.is_deleting:
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


def _is_on_the_way(pod: Pod, wanted_hash: str) -> bool:
    """Between the old pod, already told to stop, and the new one, not yet ready."""
    return not is_available(pod) if is_updated(pod, wanted_hash) else pod.is_deleting
