"""Which outdated pods a rolling update takes next.

Two limits hold at once. *Availability*: an available pod is taken only while fewer than `maxUnavailable` pods are
unavailable. *Reach*: at most `maxUnavailable` pods are under way (marked for removal, being deleted, or new and not yet
available), whatever state they were in before. So during an outage of Slurm, when every pod is unavailable, the update
does not mark all pods. Until a pod of the new template has become available, only a fifth of `maxUnavailable` (rounded
up) may be under way, so that a bad template stops there.

Idle pods go first, at any time: a mark that has stood on a busy pod for `removal.MARK_HELD_S` moves to a pod that has
become idle. So long jobs hold back only the pods that they run on.

A pod that *cannot* move (`is_stranded`: its machine is dead, or somebody has drained its Slurm node or set it DOWN)
would use up both limits for ever. So up to a fifth of all pods (rounded up) are left out of both limits if they cannot
move; any more of them count.

Services (jobs without a process on the node) outlive their slurmd, but not for ever: if no slurmd is back within
`SlurmdTimeout`, they lose their node. So as long as the new template has no available pod, only one pod with services
is replaced, and the next one waits until that pod's successor is available.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

from sunkpy.core.model.objects import Pod
from sunkpy.core.model.removal_token import token_of
from sunkpy.core.nodeset.pod_state import is_available
from sunkpy.core.nodeset.removal import RemovalCause, marks_to_move, may_be_replaced
from sunkpy.core.nodeset.spec import UpdateStrategy
from sunkpy.core.nodeset.survey import Survey
from sunkpy.core.nodeset.verdict import Trait
from sunkpy.core.nodeset.world import World

_UNPROVEN = 5
"""The divisor of `maxUnavailable` for a template that has no available pod yet."""


def max_unavailable(strategy: UpdateStrategy, total: int) -> int:
    """Return how many pods `maxUnavailable` allows to be unavailable. A percentage of `total` is rounded up, and the
    result is at least one, as for DaemonSets.
    """
    limit = strategy.rolling_update.max_unavailable
    if isinstance(limit, str):
        percent = int(limit.removesuffix("%") or 0)
        limit = -(-total * percent // 100)
    return max(limit, 1)


def choose_for_rollout(
    survey: Survey, gone: Collection[str], *, total: int, limit: int, now: datetime
) -> Sequence[str]:
    """Return uids of the pods that the rolling update wants to replace: those that it has already marked for removal,
    and the next ones within `limit`.

    If a mark is to move from a busy pod to an idle one, this call only leaves the busy pod out. The next decision then
    has one pod fewer under way, and chooses the idle pod.

    Args:
        survey: all nodes and pods.
        gone: uids of pods that go for another reason.
        total: how many pods there should be; one that is missing counts as unavailable and as under way.
        limit: `maxUnavailable` in pods.
        now: the time of the decision.
    """
    if not len(survey.outdated):
        return []
    aside = _not_counted(survey, total)
    marked = [pod.uid for pod in _marked_by_roll(survey) if pod.uid not in gone]
    moving = [uid for uid in marked if uid not in aside][:limit]
    chosen = [uid for uid in marked if uid in aside] + moving
    under_way, unavailable = _count_movable(survey, gone, aside, total)
    under_way += len(moving)
    left_alone = {*gone, *marked, *survey.those(Trait.STRANDED)}
    room = limit if survey.counts[Trait.PROVEN] else -(-limit // _UNPROVEN)
    others = (each for each in survey.outdated if each.pod.uid not in left_alone and not each.pod.is_deleting)
    for judged in others:
        if under_way >= room or (is_available(judged.pod) and unavailable >= limit):
            released = marks_to_move([survey.pods[uid] for uid in moving], chain([judged], others), now)
            return [uid for uid in chosen if uid not in released]
        chosen.append(judged.pod.uid)
        under_way += 1
        unavailable += is_available(judged.pod)
    return chosen


def choose_replaceable(world: World, wanted_gone: Mapping[str, RemovalCause]) -> frozenset[str]:
    """Return uids of the pods that the rolling update may delete now although services (jobs that survive a change of
    slurmd) run on their nodes.

    It is empty if `replicas` is set, because the next pod might be made on another node.
    """
    survey = world.survey
    if world.nodeset.spec.replicas is not None:
        return frozenset()
    ready = [
        judged.pod
        for uid, judged in survey.those(Trait.REPLACEABLE).items()
        if wanted_gone.get(uid) is RemovalCause.ROLLOUT and may_be_replaced(judged.pod, world.now)
    ]
    if not survey.counts[Trait.PROVEN]:
        ready = [] if _is_one_under_way(survey) else sorted(ready, key=_soonest_lost)[:1]
    return frozenset(pod.uid for pod in ready)


def _soonest_lost(pod: Pod) -> tuple[bool, str]:
    """Return the sort key by which pods with services on their nodes are replaced. Pods that are not Ready come first:
    without a slurmd, Slurm soon gives up the node with its services.
    """
    return (pod.is_condition_true("Ready"), pod.uid)


def _is_one_under_way(survey: Survey) -> bool:
    """True if a pod of the NodeSet is being replaced, is not available yet, or has still to be created. Pods that no
    rolling update can move (`is_stranded`) are left out.
    """
    stranded = sum(Trait.ON_THE_WAY in judged.traits for judged in survey.those(Trait.STRANDED).values())
    return len(survey.free) > 0 or survey.counts[Trait.ON_THE_WAY] > stranded


def _not_counted(survey: Survey, total: int) -> frozenset[str]:
    """Return uids of the pods that no rolling update can move (`is_stranded`) and that its limits leave out: at most a
    fifth of `total` (rounded up), or one if `total` is 0.
    """
    stranded = sorted(survey.those(Trait.STRANDED).values(), key=lambda judged: judged.pod.name)
    return frozenset(judged.pod.uid for judged in stranded[: max(1, -(-total // 5))])


def _marked_by_roll(survey: Survey) -> Iterator[Pod]:
    """Yield the pods that the rolling update has marked for removal. Marked pods come first in `survey.outdated`, so
    the search ends at the first unmarked pod.
    """
    for pod in (judged.pod for judged in survey.outdated):
        token = token_of(pod)
        if token is None and not pod.is_deleting:
            return
        if token is not None and token.is_rollout and not pod.is_deleting:
            yield pod


def _count_movable(survey: Survey, gone: Collection[str], aside: Collection[str], total: int) -> tuple[int, int]:
    """Return how many pods are under way from an old template to the new one, and how many are unavailable. Missing
    pods count in both numbers; pods in `gone` or `aside` count in neither.
    """
    counts = survey.counts
    missing = max(total - counts[Trait.STAYING] + sum(Trait.STAYING in survey.pods[uid].traits for uid in gone), 0)
    apart = [survey.pods[uid].traits for uid in {*gone, *aside}]
    unavailable = counts[Trait.STAYING] - counts[Trait.STAYING_AVAILABLE] - sum(map(_is_missed, apart))
    on_the_way = counts[Trait.ON_THE_WAY] - sum(Trait.ON_THE_WAY in traits for traits in apart)
    return missing + on_the_way, missing + unavailable


def _is_missed(traits: frozenset[Trait]) -> bool:
    return Trait.STAYING in traits and Trait.STAYING_AVAILABLE not in traits
