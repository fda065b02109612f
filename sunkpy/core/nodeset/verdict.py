"""The first half of the decision about a NodeSet: each node and its pods are judged alone.

May the node carry a slurmd pod, may its pod stay, and which traits (`Trait`) does the pod have? A verdict reads no
other node and no clock, so it holds until its own node or a pod on it changes. The second half (how many pods, which
first, how many at once) is decided on the sums of the verdicts (`survey`, `decide`).
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping, Sequence, Set

import msgspec

from sunkpy.core import names
from sunkpy.core.health import read_record
from sunkpy.core.health.decide import waits_for_verification
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.removal_token import token_of
from sunkpy.core.nodeset.feasibility import Exclusion, ExclusionRule, decide_fit, is_lost
from sunkpy.core.nodeset.pod_state import (
    RemovalOrder,
    is_answered,
    is_available,
    is_marked_by_roll,
    is_on_the_way,
    is_open_and_idle,
    is_replaceable,
    is_stranded,
    is_updated,
    removal_order,
)
from sunkpy.core.nodeset.services import has_successor, jobs_of_pods
from sunkpy.core.nodeset.slurmd_pod import changed_offer
from sunkpy.core.nodeset.wanted import Wanted


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that the verdict on one node reads.

    `node` is None if there is no Node of this name. `slurmd_pods`: the slurmd pods of all NodeSets that are on the node
    or pinned to it. `occupants`: all pods on the node. `lasting_offers`: uids of slurmd pods whose node has, for a
    while, offered to Slurm something other than what the pod was made for.
    """

    name: str
    node: Node | None = None
    slurmd_pods: Sequence[Pod] = ()
    occupants: Sequence[Pod] = ()
    lasting_offers: Set[str] = frozenset()


class Trait(enum.IntEnum):
    """A property of a slurmd pod, such as LIVE, LEAVING or MARKED. A survey counts the pods that have each trait, and
    lists the pods that have some of them.
    """

    LIVE = enum.auto()  # not finished; the next four are only for live pods
    SCHEDULED = enum.auto()  # on a node that fits; else it is misscheduled
    DRAINS = enum.auto()
    RUNS = enum.auto()
    SICK = enum.auto()  # live, on a Node that is closed because of a signal of its health
    SCHEDULED_READY = enum.auto()
    SCHEDULED_AVAILABLE = enum.auto()
    SCHEDULED_UPDATED = enum.auto()
    STAYING = enum.auto()  # it may remain, unless there are too many
    STAYING_AVAILABLE = enum.auto()
    STAYING_UPDATED = enum.auto()
    STAYING_UNREADY = enum.auto()
    PROVEN = enum.auto()  # staying and available, of the current template and offer
    REPLACEABLE = enum.auto()  # staying; what runs there outlives it, and the next pod is the same Slurm node
    UNTOLD = enum.auto()  # staying; its annotation of jobs is out of date
    ON_THE_WAY = enum.auto()  # staying, between the old template and the new
    STRANDED = enum.auto()  # staying, and no roll can move it
    OUTDATED = enum.auto()  # staying, made from another template or for another offer
    OLD_TEMPLATE = enum.auto()  # staying, made from another template
    LEAVING = enum.auto()  # its node is excluded, or has another pod
    LEAVING_LOST = enum.auto()  # its Node object is gone, or its machine is off
    TO_VERIFY = enum.auto()  # staying, and the next pod is to check the machine before slurmd starts
    IDLE = enum.auto()  # staying, open, and nothing runs there; only of a NodeSet that releases such nodes
    OTHER_OFFER = enum.auto()  # its node offers something other than it was made for
    MARKED = enum.auto()
    ANSWERED = enum.auto()  # marked, and the syncer has said that nothing runs there
    FINISHED = enum.auto()
    DELETING = enum.auto()


class PodVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one slurmd pod of the NodeSet. `order`: the sort key by which pods are removed. `fits`: its node
    may carry a pod. `offer`: what its node offers to Slurm now, if the pod was made for something else. `why`: why the
    pod has to leave its node; empty if it may stay.

    `jobs`: IDs of the Slurm jobs of the workload pods on its node, only while a rolling update waits for these jobs.
    """

    pod: Pod
    traits: frozenset[Trait]
    order: RemovalOrder
    fits: bool
    offer: str = ""
    why: str = ""
    jobs: str = ""


class NodeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one node and its slurmd pods, for one NodeSet.

    `fits`: the node may carry a pod; `exclusion` says why not. `foreign_names`: names of other NodeSets' slurmd pods,
    which no pod of this NodeSet can get.
    """

    node: Node | None
    fits: bool = False
    exclusion: Exclusion | None = None
    pods: tuple[PodVerdict, ...]
    foreign_names: tuple[str, ...] = ()


def judge(wanted: Wanted, view: NodeView) -> NodeVerdict:
    """Judge one node for one NodeSet: may it carry a slurmd pod, and may the pods that it has stay?

    Raises:
        quantity.BadQuantity: a quantity of the NodeSet or of the node cannot be read.
    """
    nodeset = wanted.nodeset
    own = sorted(filter(nodeset.owns, view.slurmd_pods), key=_primary_order)
    if nodeset.is_deleting:
        # The NodeSet is being deleted: no node is offered, and existing pods count as scheduled.
        return NodeVerdict(node=view.node, pods=tuple(_judge_leaver(wanted, view, pod, None, fits=True) for pod in own))
    foreign = [pod for pod in view.slurmd_pods if not nodeset.owns(pod)]
    exclusion = _exclude(wanted, view, own, foreign)
    fits = view.node is not None and exclusion is None
    may_stay = view.node is not None and (exclusion is None or exclusion.may_stay)
    stayers, leavers = (own[:1], own[1:]) if may_stay else ([], own)
    return NodeVerdict(
        node=view.node,
        fits=fits,
        exclusion=exclusion,
        pods=(
            *(_judge_stayer(wanted, view, pod, fits=fits) for pod in stayers),
            *(_judge_leaver(wanted, view, pod, exclusion, fits=fits) for pod in leavers),
        ),
        foreign_names=tuple(pod.name for pod in foreign if _shares_names(wanted, pod)),
    )


def _exclude(wanted: Wanted, view: NodeView, own: Sequence[Pod], foreign: Sequence[Pod]) -> Exclusion | None:
    """Return why the node may not carry a pod of the NodeSet; None if it may, or if there is no Node object. What other
    pods request counts only if the NodeSet has no pod there yet.
    """
    if view.node is None:
        return None
    is_released = view.node.annotations.get(names.ANNOTATION_RELEASED) == wanted.nodeset.title
    if not own and is_released and wanted.nodeset.spec.releases:
        return Exclusion(ExclusionRule.RELEASED)
    others = () if own else [pod for pod in view.occupants if not wanted.nodeset.owns(pod)]
    return decide_fit(view.node, wanted.asked, occupants=others, rival=_rival(foreign, own[0] if own else None))


def _primary_order(pod: Pod) -> tuple[bool, bool, str, str]:
    """Return the key that sorts a NodeSet's pods on one node. Only the first pod may stay: a pod that is not being
    deleted comes first, then one that has not finished, then the oldest.
    """
    return (pod.is_deleting, pod.is_finished, *_age(pod))


def _age(pod: Pod) -> tuple[str, str]:
    return (pod.metadata.creation_timestamp or "~", pod.uid)


def _rival(foreign: Sequence[Pod], primary: Pod | None) -> str | None:
    """Return the other NodeSet (`namespace/name`) that the node belongs to; None if there is none. If this NodeSet has
    a pod there (`primary`), too, the node belongs to the NodeSet of the older pod.
    """
    older = [pod for pod in foreign if primary is None or _age(pod) < _age(primary)]
    if not older:
        return None
    oldest = min(older, key=_age)
    return f"{oldest.metadata.namespace}/{oldest.labels.get(names.LABEL_NODESET, '?')}"


def _shares_names(wanted: Wanted, pod: Pod) -> bool:
    """True if no pod of this NodeSet may have the name of `pod`, a pod of another NodeSet: the two NodeSets are in the
    same Slurm cluster or namespace.
    """
    same_cluster = pod.labels.get(names.LABEL_CLUSTER) == wanted.nodeset.spec.cluster
    return same_cluster or pod.metadata.namespace == wanted.nodeset.metadata.namespace


def _judge_stayer(wanted: Wanted, view: NodeView, pod: Pod, *, fits: bool) -> PodVerdict:
    other_offer = changed_offer(wanted.nodeset, view.node, pod)
    is_of_template = is_updated(pod, wanted.hash)
    is_current = is_of_template and not (other_offer and pod.uid in view.lasting_offers)
    is_rolled = is_marked_by_roll(pod)
    is_followed = is_rolled and _is_followed(wanted, view, pod)
    jobs = jobs_of_pods(view.occupants) if is_followed else ""
    found = {
        Trait.STAYING: True,
        Trait.STAYING_AVAILABLE: is_available(pod),
        Trait.STAYING_UPDATED: is_of_template,
        Trait.STAYING_UNREADY: not pod.is_condition_true("Ready"),
        Trait.PROVEN: is_current and is_available(pod),
        Trait.REPLACEABLE: is_followed and is_replaceable(pod),
        Trait.UNTOLD: is_rolled and pod.annotations.get(names.ANNOTATION_JOBS, "") != jobs,
        Trait.ON_THE_WAY: is_on_the_way(pod, is_current=is_current),
        Trait.STRANDED: is_stranded(pod, view.node),
        Trait.OUTDATED: not is_current,
        Trait.OLD_TEMPLATE: not is_of_template,
        Trait.IDLE: wanted.nodeset.spec.releases and is_open_and_idle(pod),
        Trait.OTHER_OFFER: bool(other_offer),
        Trait.TO_VERIFY: view.node is not None and waits_for_verification(view.node, pod),
    }
    return PodVerdict(
        pod=pod,
        traits=_interned(found | _traits_of_any(wanted, view, pod, fits=fits)),
        order=removal_order(pod),
        fits=fits,
        offer=other_offer,
        jobs=jobs,
    )


def _is_followed(wanted: Wanted, view: NodeView, pod: Pod) -> bool:
    """True if the NodeSet would make a new pod on this node after `pod`, the new pod would fit, and it would be the
    same Slurm node.

    It may not fit, because the template may need more now, or other pods may have filled the node.
    """
    is_alone = all(other.uid == pod.uid for other in view.slurmd_pods)
    return is_alone and _exclude(wanted, view, (), ()) is None and has_successor(wanted.nodeset, view.node, pod)


def _judge_leaver(wanted: Wanted, view: NodeView, pod: Pod, exclusion: Exclusion | None, *, fits: bool) -> PodVerdict:
    found = {Trait.LEAVING: True, Trait.LEAVING_LOST: is_lost(view.node)}
    traits = _interned(found | _traits_of_any(wanted, view, pod, fits=fits))
    other = "the Node is gone" if view.node is None else "the node has another slurmd pod"
    return PodVerdict(pod=pod, traits=traits, order=removal_order(pod), fits=fits, why=str(exclusion or other))


def _traits_of_any(wanted: Wanted, view: NodeView, pod: Pod, *, fits: bool) -> dict[Trait, bool]:
    live = not pod.is_finished
    scheduled = live and fits
    health = read_record(view.node) if view.node is not None else None
    return {
        Trait.LIVE: live,
        Trait.SCHEDULED: scheduled,
        Trait.DRAINS: live and pod.is_condition_true(names.CONDITION_DRAIN),
        Trait.RUNS: live and pod.is_condition_true(names.CONDITION_RUNNING),
        Trait.SICK: live and health is not None and health.is_closed,
        Trait.SCHEDULED_READY: scheduled and pod.is_condition_true("Ready"),
        Trait.SCHEDULED_AVAILABLE: scheduled and is_available(pod),
        Trait.SCHEDULED_UPDATED: scheduled and is_updated(pod, wanted.hash),
        Trait.MARKED: token_of(pod) is not None,
        Trait.ANSWERED: is_answered(pod),
        Trait.FINISHED: not live,
        Trait.DELETING: pod.is_deleting,
    }


@functools.cache
def _same(traits: frozenset[Trait]) -> frozenset[Trait]:
    """Return one shared set object for all pods that have exactly these traits. It saves memory: there are only a few
    dozen different sets.
    """
    return traits


def _interned(found: Mapping[Trait, bool]) -> frozenset[Trait]:
    return _same(frozenset(trait for trait, holds in found.items() if holds))
