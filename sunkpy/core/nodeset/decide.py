"""From what is there to what has to be done next for one NodeSet.

One pass: **survey** nodes and pods (`survey`), say which pods are **wanted gone** and why (here), and derive the steps:
what each of them needs to go, or to stay after all (`removal`), and which nodes get a pod (`creation`). Nothing is
remembered between passes except what stands on the objects, so a pass may be lost or repeated.

A pod that is wanted gone is not deleted while a job runs on it: `removal` says what has to happen first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.nodeset.actions import AddFinalizer, NodeSetAction, RemoveFinalizer
from sunkpy.core.nodeset.creation import plan_creations
from sunkpy.core.nodeset.removal import RemovalCause, find_overdue, next_look_s, plan_removals, removal_order
from sunkpy.core.nodeset.rollout import choose_for_rollout, is_stranded, is_updated, max_unavailable
from sunkpy.core.nodeset.slurmd_pod import node_of, template_hash
from sunkpy.core.nodeset.survey import Survey, make_survey
from sunkpy.core.nodeset.world import World


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The steps, what they follow from, and when to look again although nothing happens."""

    actions: Sequence[NodeSetAction]
    survey: Survey
    wanted_gone: Mapping[str, RemovalCause]
    desired: int
    overdue: Sequence[Pod] = ()
    is_teardown: bool = False
    requeue_after_s: float | None = None


def decide_nodeset(world: World) -> Plan:
    """The next steps for one NodeSet.

    Raises:
        msgspec.ValidationError: the template is not a pod template.
        quantity.BadQuantity: a quantity of the NodeSet cannot be read.
    """
    if world.nodeset.is_deleting:
        return _plan_teardown(world)
    survey = make_survey(world)
    replicas = world.nodeset.spec.replicas
    desired = survey.possible if replicas is None else replicas
    wanted_gone = _choose_wanted_gone(world, survey, desired)
    hold = [] if names.FINALIZER_NODESET in world.nodeset.metadata.finalizers else [AddFinalizer()]
    removals = plan_removals(world, survey.pods, wanted_gone)
    creations = plan_creations(world, survey, desired)
    return Plan(
        actions=[*hold, *removals, *creations],
        survey=survey,
        wanted_gone=wanted_gone,
        desired=desired,
        overdue=find_overdue(world, survey.pods, wanted_gone),
        requeue_after_s=next_look_s(world, survey.pods),
    )


def _plan_teardown(world: World) -> Plan:
    """Every pod goes as any other pod goes, drained first; the finalizer goes after the last one."""
    pods = world.own_pods
    wanted_gone = {pod.name: RemovalCause.NODESET_DELETED for pod in pods}
    is_held = names.FINALIZER_NODESET in world.nodeset.metadata.finalizers
    release = [RemoveFinalizer()] if is_held and not pods else []
    return Plan(
        actions=[*plan_removals(world, pods, wanted_gone), *release],
        survey=Survey(fits=(), exclusions={}, pods=pods, staying=(), leaving=pods, held=(), removal_cap=len(pods)),
        wanted_gone=wanted_gone,
        desired=0,
        overdue=find_overdue(world, pods, wanted_gone),
        is_teardown=True,
        requeue_after_s=next_look_s(world, pods),
    )


def _choose_wanted_gone(world: World, survey: Survey, desired: int) -> dict[str, RemovalCause]:
    """Pod name → why it has to go. A pod that is already marked stays chosen rather than a fresh one."""
    gone = {pod.name: RemovalCause.NODE_LEFT for pod in survey.leaving}
    if world.nodeset.spec.replicas is not None:
        surplus = max(len(survey.staying) - desired, 0)
        victims = sorted(survey.staying, key=lambda pod: _surplus_order(survey, pod))[:surplus]
        gone |= {pod.name: RemovalCause.SCALE_DOWN for pod in victims}
    strategy = world.nodeset.spec.update_strategy
    if _may_roll(world):
        total = min(desired, survey.possible)
        wanted_hash = template_hash(world.nodeset)
        outdated = choose_for_rollout(
            [pod for pod in survey.staying if pod.name not in gone],
            is_current=lambda pod: is_updated(pod, wanted_hash) and pod.uid not in world.changed_offers,
            total=total,
            limit=max_unavailable(strategy, total),
            stranded={pod.name for pod in survey.staying if is_stranded(pod, world.nodes.get(node_of(pod)))},
        )
        gone |= dict.fromkeys(sorted(outdated), RemovalCause.ROLLOUT)
    return gone


def _may_roll(world: World) -> bool:
    """A template that the apiserver refuses must not cost a single pod."""
    spec = world.nodeset.spec
    return spec.update_strategy.type == "RollingUpdate" and not spec.paused and not world.create_error


def _surplus_order(survey: Survey, pod: Pod) -> tuple[bool, bool, int, float, str]:
    """As `removal_order`, but of two unmarked pods the one on a node that no longer fits goes first."""
    unmarked, rank, age, name = removal_order(pod)
    return (unmarked, node_of(pod) not in survey.exclusions, rank, age, name)
