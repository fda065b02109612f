"""Decides what has to be done next for one NodeSet.

Each node and its pods are judged alone (`verdict`), and the verdicts are summed up (`survey`). From the sums this
module chooses which pods have to go (`wanted_gone`), and why. Then `removal` plans the next step of each of these pods,
and lets a pod stay whose reason to go has ended. `creation` plans which nodes get a pod. One such decision is a pass.
Between passes nothing is remembered except what stands on the Kubernetes objects, so a pass may be lost or repeated. A
pass looks only at pods for which there may be something to do.

A pod that has to go is not deleted while a job runs on it, with two exceptions: `removal` names them, and says what has
to happen first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.removal_token import token_of
from sunkpy.core.nodeset.actions import AddFinalizer, NodeSetAction, RemoveFinalizer
from sunkpy.core.nodeset.creation import count_missing, plan_creations
from sunkpy.core.nodeset.pod_state import RemovalOrder
from sunkpy.core.nodeset.release import choose_idle
from sunkpy.core.nodeset.removal import RemovalCause, find_overdue, marks_to_move, next_look_s, plan_removals
from sunkpy.core.nodeset.rollout import choose_for_rollout, choose_replaceable, max_unavailable
from sunkpy.core.nodeset.spec import NodeSet, rolls_now
from sunkpy.core.nodeset.verdict import PodVerdict, Trait
from sunkpy.core.nodeset.windows import next_change
from sunkpy.core.nodeset.world import WAVE, World


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The next steps for one NodeSet (`actions`), what they follow from, and after how many seconds to decide again
    even if nothing has changed (`requeue_after_s`; None: never).

    `wanted_gone`: uid of each pod that has to go → why. `desired`: how many pods there should be. `held`: pods that
    should leave their nodes, but stay because more than `removal_cap` would leave at once. `overdue`: pods whose drain
    takes too long. `missing`: how many pods are to be created, now or later. `is_partial`: there are more steps than
    one pass does.
    """

    actions: Sequence[NodeSetAction]
    wanted_gone: Mapping[str, RemovalCause]
    desired: int
    held: Sequence[Pod] = ()
    removal_cap: int = 0
    overdue: Sequence[Pod] = ()
    missing: int = 0
    is_partial: bool = False
    requeue_after_s: float | None = None


def decide_nodeset(world: World) -> Plan:
    """Return the next steps for one NodeSet.

    Raises:
        quantity.BadQuantity: a quantity of the NodeSet or of a node cannot be read.
    """
    if world.nodeset.is_deleting:
        return _plan_teardown(world)
    replicas = world.nodeset.spec.replicas
    desired = world.survey.possible if replicas is None else replicas
    leaving, held, cap = _hold_mass_removal(world)
    wanted_gone = _choose_wanted_gone(world, leaving, desired)
    hold = [] if names.FINALIZER_NODESET in world.nodeset.metadata.finalizers else [AddFinalizer()]
    removals = plan_removals(world, wanted_gone, choose_replaceable(world, wanted_gone))
    missing = count_missing(world, desired)
    creations = plan_creations(world, missing)
    return Plan(
        actions=[*hold, *removals[:WAVE], *creations],
        wanted_gone=wanted_gone,
        desired=desired,
        held=held,
        removal_cap=cap,
        overdue=find_overdue(world, wanted_gone),
        missing=missing,
        is_partial=len(removals) > WAVE or missing > len(creations),
        requeue_after_s=min(filter(None, (next_look_s(world), _window_changes_s(world))), default=None),
    )


def _plan_teardown(world: World) -> Plan:
    """Plan the end of a NodeSet that is being deleted: each pod is removed after its Slurm node is drained, and after
    the last pod the NodeSet's finalizer is removed.
    """
    wanted_gone = dict.fromkeys(world.survey.pods, RemovalCause.NODESET_DELETED)
    is_held = names.FINALIZER_NODESET in world.nodeset.metadata.finalizers
    release = [RemoveFinalizer()] if is_held and not wanted_gone else []
    removals = plan_removals(world, wanted_gone)
    return Plan(
        actions=[*removals[:WAVE], *release],
        wanted_gone=wanted_gone,
        desired=0,
        overdue=find_overdue(world, wanted_gone),
        is_partial=len(removals) > WAVE,
        requeue_after_s=next_look_s(world),
    )


def _hold_mass_removal(world: World) -> tuple[list[Pod], list[Pod], int]:
    """Return the pods that leave their nodes, the pods that should leave but are held back, and the cap: how many may
    leave at once without a person's confirmation.

    Such a pod is on a node that no longer fits, or that has two pods of the NodeSet. A controller that strips a label
    from every node would empty the NodeSet, although nobody asked for that. So if more pods than the cap would leave,
    no further pod is marked for removal until fewer would leave or a person raises the cap. Pods whose Node object is
    gone or whose machine is off are not counted, because waiting cannot save them.
    """
    survey, cap = world.survey, _removal_cap(world)
    leavers = [judged.pod for judged in sorted(survey.those(Trait.LEAVING).values(), key=_by_order)]
    if len(leavers) - survey.counts[Trait.LEAVING_LOST] <= cap:
        return leavers, [], cap
    held = [pod for pod in leavers if _may_be_held(world, pod)]
    kept = {pod.uid for pod in held}
    return [pod for pod in leavers if pod.uid not in kept], held, cap


def _by_order(judged: PodVerdict) -> RemovalOrder:
    return judged.order


def _may_be_held(world: World, pod: Pod) -> bool:
    is_lost = Trait.LEAVING_LOST in world.survey.pods[pod.uid].traits
    return not is_lost and token_of(pod) is None and not pod.is_deleting


def _removal_cap(world: World) -> int:
    said = annotated_cap(world.nodeset)
    return said if said is not None else max(5, -(-len(world.survey.pods) // 5))


def annotated_cap(nodeset: NodeSet) -> int | None:
    """Return how many pods may leave at once, by the NodeSet's annotation; None if it is missing or is not a number."""
    text = nodeset.annotations.get(names.ANNOTATION_REMOVAL_CAP, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _choose_wanted_gone(world: World, leaving: Sequence[Pod], desired: int) -> dict[str, RemovalCause]:
    """Return why pods have to go: uid → cause. Pods that are already marked for removal (by a token) are chosen first,
    but a busy pod may lose its mark to an idle one.
    """
    survey = world.survey
    may_be_replaced = not world.create_error
    gone = dict.fromkeys(survey.those(Trait.TO_VERIFY) if may_be_replaced else (), RemovalCause.VERIFICATION)
    gone |= {pod.uid: RemovalCause.NODE_LEFT for pod in leaving}
    gone |= dict.fromkeys(choose_idle(world, gone), RemovalCause.IDLE)
    if world.nodeset.spec.replicas is not None:
        gone |= dict.fromkeys(_choose_surplus(world, desired), RemovalCause.SCALE_DOWN)
    if _may_roll(world):
        total = min(desired, survey.possible)
        limit = max_unavailable(world.nodeset.spec.update_strategy, total)
        chosen = choose_for_rollout(survey, gone, total=total, limit=limit, now=world.now)
        gone |= dict.fromkeys(chosen, RemovalCause.ROLLOUT)
    return gone


def _choose_surplus(world: World, desired: int) -> list[str]:
    """Return uids of the pods to remove because there are more than `desired`. A busy pod that loses its removal mark
    to an idle pod is left out; the next decision marks the idle one.
    """
    staying = iter(world.survey.staying)
    chosen = list(islice(staying, max(len(world.survey.staying) - desired, 0)))
    moved = marks_to_move([judged for judged in chosen if judged.fits], staying, world.now)
    return [judged.pod.uid for judged in chosen if judged.pod.uid not in moved]


def _may_roll(world: World) -> bool:
    """True if a rolling update may replace pods now: strategy, pause and windows allow it, and the apiserver accepts
    pods of the current template. A template that the apiserver refuses must not cost a single pod.
    """
    return rolls_now(world.nodeset.spec, world.now) and not world.create_error


def _window_changes_s(world: World) -> float | None:
    """Return the seconds until a maintenance window of the rolling update opens or closes; None if no pod is outdated,
    or if there are no windows.
    """
    windows = world.nodeset.spec.update_strategy.rolling_update.windows
    at = next_change(windows, world.now) if len(world.survey.outdated) else None
    return (at - world.now).total_seconds() if at is not None else None
