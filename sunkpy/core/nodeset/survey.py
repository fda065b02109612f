"""The first half of a pass: judge every node (may it carry a pod?), then every pod by its node (may it stay?)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.removal_token import token_of
from sunkpy.core.nodeset.feasibility import Exclusion, decide_fit
from sunkpy.core.nodeset.slurmd_pod import node_of
from sunkpy.core.nodeset.world import World


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
        """The nodes that fit, by name; a pod on any other is misscheduled."""
        return frozenset(node.name for node in self.fits)

    @property
    def possible(self) -> int:
        """How many pods the nodes could carry: one each."""
        return len(self.fits)


def make_survey(world: World) -> Survey:
    """Judge every node, then every pod by its node.

    Raises:
        msgspec.ValidationError: the template is not a pod template.
        quantity.BadQuantity: a quantity of the NodeSet cannot be read.
    """
    pods = world.own_pods
    primary = _primary_pods(pods)
    exclusions = _exclude(world, primary)
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


def _exclude(world: World, primary: Mapping[str, Pod]) -> dict[str, Exclusion]:
    """Node → why it is out; nodes that fit are not in it. Where a pod of ours is, the room is ours already."""
    rivals = _rivals(world.foreign_pods, primary)
    template, gpu = world.nodeset.pod_spec, world.nodeset.spec.gpu
    exclusions: dict[str, Exclusion] = {}
    for node in world.nodes.values():
        exclusion = decide_fit(
            node,
            template,
            occupants=() if node.name in primary else _others(world, node),
            rival=rivals.get(node.name),
            gpu_resource=gpu.resource if gpu else None,
        )
        if exclusion is not None:
            exclusions[node.name] = exclusion
    return exclusions


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
    return [pod for pod in world.occupants.get(node.name, ()) if not world.nodeset.owns(pod)]


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
