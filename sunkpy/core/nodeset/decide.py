"""From what is there to what has to be done next for one NodeSet.

One pass: **survey** the nodes (which may carry a pod), **sort** the pods (stay, leave, surplus, outdated), say which
pods are **wanted gone** and why, and derive the steps: marks, cancelled marks, deletions, creations. Nothing is
remembered between passes except what stands on the objects, so a pass may be lost or repeated.

A pod that could be running a Slurm job is deleted only after the hand-shake of `removal`; a finished pod (Failed,
Succeeded) runs nothing and is replaced at once, with a growing pause per node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.removal_token import Token, token_of
from sunkpy.core.model.times import backoff_s, parse_rfc3339
from sunkpy.core.nodeset.actions import (
    AddFinalizer,
    CancelPending,
    CreatePod,
    DeletePod,
    MarkPending,
    NodeSetAction,
    RemoveFinalizer,
)
from sunkpy.core.nodeset.feasibility import Exclusion, decide_fit
from sunkpy.core.nodeset.naming import assign_names, remembered_name
from sunkpy.core.nodeset.removal import RemovalCause, is_cleared, removal_order
from sunkpy.core.nodeset.rollout import choose_for_rollout, max_unavailable
from sunkpy.core.nodeset.slurmd_pod import build_pod, node_of, template_hash
from sunkpy.core.nodeset.spec import NodeSet

_CREATE_BURST = 250  # per pass, as the DaemonSet controller does
_FAILED_PAUSE_MAX_S = 300.0


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a pass looks at.

    `slurmd_pods` are those of all NodeSets; `occupants` lists the pods on a node (any pods; those of this NodeSet are
    left out here); `failures` counts by node how often its pod has failed in a row; `create_error` is what the
    apiserver said when it last refused a pod of the present template, tried or only asked about.
    """

    nodeset: NodeSet
    nodes: Mapping[str, Node]
    slurmd_pods: Sequence[Pod]
    occupants: Mapping[str, Sequence[Pod]] = {}
    failures: Mapping[str, int] = {}
    create_error: str = ""
    now: datetime

    @property
    def own_pods(self) -> list[Pod]:
        """The slurmd pods of this NodeSet."""
        return [pod for pod in self.slurmd_pods if self._is_own(pod)]

    @property
    def foreign_pods(self) -> list[Pod]:
        """The slurmd pods of all other NodeSets."""
        return [pod for pod in self.slurmd_pods if not self._is_own(pod)]

    def _is_own(self, pod: Pod) -> bool:
        return self.nodeset.owns(pod.labels, pod.metadata.namespace)


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """The pass's view of nodes and pods.

    `staying` may remain if there is no surplus; `leaving` must go since their node is out or has two of them; `held`
    would have to leave but are too many at once.
    """

    fits: Sequence[Node]
    exclusions: Mapping[str, Exclusion]
    pods: Sequence[Pod]
    staying: Sequence[Pod]
    leaving: Sequence[Pod]
    held: Sequence[Pod]
    removal_cap: int

    @property
    def fit_names(self) -> frozenset[str]:
        """Names of the nodes that fit."""
        return frozenset(node.name for node in self.fits)

    @property
    def possible(self) -> int:
        """How many pods the nodes could carry."""
        return len(self.fits)


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
    desired = len(survey.fits) if world.nodeset.spec.replicas is None else world.nodeset.spec.replicas
    wanted_gone = _choose_wanted_gone(world, survey, desired)
    steps = _removal_steps(world, survey, wanted_gone)
    creations = _plan_creations(world, survey, desired)
    guard = [] if names.FINALIZER_NODESET in world.nodeset.metadata.finalizers else [AddFinalizer()]
    return _plan(world, survey, wanted_gone, desired, [*guard, *steps, *creations])


def _plan_teardown(world: World) -> Plan:
    pods = world.own_pods
    survey = Survey(fits=(), exclusions={}, pods=pods, staying=(), leaving=pods, held=(), removal_cap=len(pods))
    wanted_gone = {pod.name: RemovalCause.NODESET_DELETED for pod in pods}
    steps: list[NodeSetAction] = list(_removal_steps(world, survey, wanted_gone))
    if not pods and names.FINALIZER_NODESET in world.nodeset.metadata.finalizers:
        steps.append(RemoveFinalizer())
    return _plan(world, survey, wanted_gone, 0, steps)


def _plan(
    world: World,
    survey: Survey,
    wanted_gone: Mapping[str, RemovalCause],
    desired: int,
    actions: Sequence[NodeSetAction],
) -> Plan:
    overdue = [pod for pod in survey.pods if pod.name in wanted_gone and _is_overdue(world, pod)]
    return Plan(
        actions=actions,
        survey=survey,
        wanted_gone=wanted_gone,
        desired=desired,
        overdue=overdue,
        is_teardown=world.nodeset.is_deleting,
        requeue_after_s=_next_look_s(world, survey),
    )


def make_survey(world: World) -> Survey:
    """Judge every node, then every pod by its node."""
    pods = world.own_pods
    primary = _primary_pods(pods)
    rivals = _rivals(world.foreign_pods, primary)
    template, gpu = world.nodeset.pod_spec, world.nodeset.spec.gpu
    exclusions: dict[str, Exclusion] = {}
    for node in world.nodes.values():
        occupants = () if node.name in primary else _others(world, node)
        exclusion = decide_fit(
            node,
            template,
            occupants=occupants,
            rival=rivals.get(node.name),
            gpu_resource=gpu.resource if gpu else None,
        )
        if exclusion is not None:
            exclusions[node.name] = exclusion
    staying = [pod for name, pod in primary.items() if name in world.nodes and _may_stay(exclusions.get(name))]
    stays = {pod.name for pod in staying}
    leaving, held, cap = _hold_mass_removal(world, [pod for pod in pods if pod.name not in stays])
    return Survey(
        fits=[node for node in world.nodes.values() if node.name not in exclusions],
        exclusions=exclusions,
        pods=pods,
        staying=staying,
        leaving=leaving,
        held=held,
        removal_cap=cap,
    )


def _primary_pods(pods: Sequence[Pod]) -> dict[str, Pod]:
    """One pod for each node: of several, one that is not going, then the oldest."""
    primary: dict[str, Pod] = {}
    for pod in sorted(pods, key=lambda pod: (pod.is_deleting, pod.is_finished, *_age(pod))):
        primary.setdefault(node_of(pod), pod)
    return primary


def _age(pod: Pod) -> tuple[str, str]:
    return (pod.metadata.creation_timestamp or "~", pod.uid)


def _rivals(foreign: Sequence[Pod], primary: Mapping[str, Pod]) -> dict[str, str]:
    """Node → the other NodeSet that has it. Where both have a pod, the older one keeps the node."""
    rivals = {}
    for pod in foreign:
        own = primary.get(node_of(pod))
        if own is None or _age(pod) < _age(own):
            rivals[node_of(pod)] = f"{pod.metadata.namespace}/{pod.labels.get(names.LABEL_NODESET, '?')}"
    return rivals


def _others(world: World, node: Node) -> list[Pod]:
    return [
        pod
        for pod in world.occupants.get(node.name, ())
        if not (
            pod.labels.get(names.LABEL_ROLE) == names.ROLE_COMPUTE
            and world.nodeset.owns(pod.labels, pod.metadata.namespace)
        )
    ]


def _may_stay(exclusion: Exclusion | None) -> bool:
    return exclusion is None or exclusion.may_stay


def _hold_mass_removal(world: World, leavers: Sequence[Pod]) -> tuple[list[Pod], list[Pod], int]:
    """Split those whose node is out into leaving and held.

    Nobody named these pods: a label that a controller stripped from every node would empty the set. So more than the
    cap at once means that none is newly marked, until fewer want to go or a person raises the cap by annotation.
    Pods whose Node object is gone cannot be saved by waiting and are not counted.
    """
    cap = _removal_cap(world)
    counted = [pod for pod in leavers if node_of(pod) in world.nodes]
    if len(counted) <= cap:
        return list(leavers), [], cap
    held = [pod for pod in counted if token_of(pod) is None and not pod.is_deleting]
    kept = {pod.name for pod in held}
    return [pod for pod in leavers if pod.name not in kept], held, cap


def _removal_cap(world: World) -> int:
    text = world.nodeset.annotations.get(names.ANNOTATION_REMOVAL_CAP, "")
    return int(text) if text.isdigit() else max(5, -(-len(world.own_pods) // 5))


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
        outdated = choose_for_rollout(
            [pod for pod in survey.staying if pod.name not in gone],
            wanted_hash=template_hash(world.nodeset),
            total=total,
            limit=max_unavailable(strategy, total),
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


def _removal_steps(world: World, survey: Survey, wanted_gone: Mapping[str, RemovalCause]) -> list[NodeSetAction]:
    steps: list[NodeSetAction] = []
    for pod in survey.pods:
        if pod.is_deleting:
            continue
        cause = wanted_gone.get(pod.name)
        step = _finished_step(world, pod, cause) if pod.is_finished else _live_step(world, pod, cause)
        if step is not None:
            steps.append(step)
    return steps


def _finished_step(world: World, pod: Pod, cause: RemovalCause | None) -> NodeSetAction | None:
    """Nothing runs in a finished pod. One that is only in the way of its successor waits out the pause."""
    if cause is not None or _pause_left_s(world, pod) <= 0:
        return DeletePod(pod, "failed")
    return None


def _live_step(world: World, pod: Pod, cause: RemovalCause | None) -> NodeSetAction | None:
    token = token_of(pod)
    if cause is None:
        return CancelPending(pod) if token is not None else None
    if token is None:
        return MarkPending(pod, Token(world.now, cause))
    if is_cleared(pod) and not pod.is_condition_true(names.CONDITION_RUNNING):
        return DeletePod(pod, "drained")
    if _is_overdue(world, pod) and world.nodeset.spec.drain_timeout_policy == "Force":
        return DeletePod(pod, "drain-timeout")
    return None


def _timeout_left_s(world: World, pod: Pod) -> float | None:
    token, timeout_s = token_of(pod), world.nodeset.spec.drain_timeout_seconds
    if token is None or timeout_s is None:
        return None
    return (token.since + timedelta(seconds=timeout_s) - world.now).total_seconds()


def _is_overdue(world: World, pod: Pod) -> bool:
    left_s = _timeout_left_s(world, pod)
    return left_s is not None and left_s <= 0


def _pause_left_s(world: World, pod: Pod) -> float:
    """A pod that fails at birth is tried again after 1, 2, 4 … 300 s, counted from its creation."""
    count = world.failures.get(node_of(pod), 0)
    pause_s = 0.0 if count == 0 else backoff_s(count - 1, first_s=1.0, last_s=_FAILED_PAUSE_MAX_S)
    created = pod.metadata.creation_timestamp
    age_s = (world.now - parse_rfc3339(created)).total_seconds() if created else 0.0
    return pause_s - age_s


def _plan_creations(world: World, survey: Survey, desired: int) -> list[NodeSetAction]:
    filled = {node_of(pod) for pod in survey.pods}
    free = [node for node in survey.fits if node.name not in filled]
    if world.nodeset.spec.replicas is not None:
        room = max(desired - len(survey.staying), 0)
        free = sorted(free, key=lambda node: _creation_order(world, node))[:room]
    if not free:
        return []
    assigned = assign_names(
        world.nodeset,
        free,
        held={node_of(pod): pod.name for pod in survey.pods},
        taken=[pod.name for pod in world.foreign_pods if _shares_names(world.nodeset, pod)],
    )
    return [
        CreatePod(node.name, assigned[node.name], build_pod(world.nodeset, node, assigned[node.name]))
        for node in free[:_CREATE_BURST]
    ]


def _shares_names(nodeset: NodeSet, pod: Pod) -> bool:
    """Pod names are unique in a namespace, Slurm names in a Slurm cluster."""
    same_cluster = pod.labels.get(names.LABEL_CLUSTER) == nodeset.spec.cluster
    return same_cluster or pod.metadata.namespace == nodeset.metadata.namespace


def _creation_order(world: World, node: Node) -> tuple[bool, bool, bool, str, str]:
    """Usable nodes first, then those that had a pod of this NodeSet, then the oldest."""
    return (
        node.spec.unschedulable,
        not node.is_ready,
        remembered_name(world.nodeset, node) is None,
        node.metadata.creation_timestamp,
        node.name,
    )


def _next_look_s(world: World, survey: Survey) -> float | None:
    """The soonest moment at which time alone changes the decision."""
    waits = [left_s for pod in survey.pods if (left_s := _timeout_left_s(world, pod)) is not None]
    waits += [_pause_left_s(world, pod) for pod in survey.pods if pod.is_finished and not pod.is_deleting]
    return min((wait_s for wait_s in waits if wait_s > 0), default=None)
