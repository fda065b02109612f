"""From which nodes the volumes of pods can be reached.

Neither Slurm nor a kubelet's admission checks that: a pod that is bound where its volume cannot be reached stays there
without a container, and holds its job. So the nodes out of reach are excluded from the job. No job is submitted for
pods whose claim has no volume yet, unless the storage class of the claim waits for the first consumer.

If a storage class waits for the first consumer (WaitForFirstConsumer), the volume is made for the node that Slurm gave
to the pod. The job is restricted by the class, and by the free storage of nodes, if the driver of the class reports it.
The pod is bound when the volume is there. A provisioner that cannot make the volume for that node takes the choice of
the node back, so that a scheduler chooses another node. sunkpy does not choose among volumes that an administrator made
beforehand: such a claim has to name its volume.

A claim for one pod (ReadWriteOncePod) keeps other pods waiting until that pod has ended.

Source: kube-scheduler plugins volumebinding (PreBind waits for the volumes; `hasEnoughCapacity`, which looks at each
claim by itself) and volumerestrictions; external-provisioner (`ProvisioningReschedule`). Labels of zones (volumezone)
do not count: since Kubernetes 1.12 such volumes have a node affinity as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from sunkpy.core.model import matching
from sunkpy.core.model.objects import Key, Node, NodeSelector, NodeSelectorTerm, Pod, SelectorRequirement
from sunkpy.core.model.storage import Claim, Driver, StorageClass, Volume
from sunkpy.core.placement.eligibility import Candidate, Eligibility, minus, nowhere, without
from sunkpy.core.placement.free_storage import Asked, FreeRoom


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """Functions that look up claims, volumes, classes and drivers; each returns None for an object that does not exist.
    `user_of`: returns the name of another pod, already on a node, that uses a claim of the pod; empty if there is none.
    `free`: where new volumes have room.
    """

    claim: Callable[[Key], Claim | None]
    volume: Callable[[str], Volume | None]
    storage_class: Callable[[str], StorageClass | None]
    user_of: Callable[[Key, Pod], str]
    driver: Callable[[str], Driver | None] = lambda _: None
    free: FreeRoom = msgspec.field(default_factory=FreeRoom)


_Bound = tuple[NodeSelector, str]
"""The nodes where a pod must be for one of its claims, and the reason, in words, why it must not be on other nodes."""


def within_reach(
    eligibility: Eligibility,
    pods: Iterable[Pod],
    candidates: Sequence[Candidate],
    storage: Storage,
    *,
    may_grow: bool = False,
) -> Eligibility:
    """Return the nodes from which the volumes of all these pods can be reached. If there is no such node, the result
    has no nodes and says why.

    `may_grow`: an autoscaler may add a node. It does so only for a job in the queue, so free storage is not looked at
    if all nodes lack it.
    """
    wanted = _wanted(pods, storage)
    if isinstance(wanted, str):
        return nowhere(wanted)
    bounds, to_make = wanted
    refused, full = dict[str, str](), dict[str, str]()
    for each in candidates if bounds else ():
        if why := next((why for nodes, why in bounds.items() if not matching.matches_selector(each.node, nodes)), None):
            refused[each.slurm_node] = why
    for asked, claim in to_make.items():
        full = dict.fromkeys(storage.free.without(asked, candidates), _why_full(claim)) | full
    reachable = minus(eligibility, refused)
    return without(reachable, full) if may_grow else minus(reachable, full)


def why_out_of_reach(pod: Pod, node: Node, storage: Storage) -> str:
    """Return why the pod could not reach its volumes on this node; empty if it could."""
    wanted = _wanted([pod], storage)
    if isinstance(wanted, str):
        return wanted
    bounds, to_make = wanted
    out = (why for nodes, why in bounds.items() if not matching.matches_selector(node, nodes))
    full = (_why_full(claim) for asked, claim in to_make.items() if not storage.free.has_room(asked, node))
    why = next(out, None) or next(full, None)
    return f"it is {why}" if why else ""


def _wanted(pods: Iterable[Pod], storage: Storage) -> tuple[dict[NodeSelector, str], dict[Asked, Claim]] | str:
    """Return on which nodes the pods must be, with the reasons, and for which claims free storage is needed there. If a
    pod has to wait for a claim, return the reason as text.
    """
    bounds: dict[NodeSelector, str] = {}
    to_make: dict[Asked, Claim] = {}
    for pod in pods:
        for key in pod.volume_claims:
            found = _bound(pod, key, storage)
            if isinstance(found, str):
                return found
            if found is not None:
                bounds.setdefault(*found)
        for claim in claims_to_place(pod, storage):
            if _has_reported_capacity(claim, storage):
                to_make.setdefault((claim.spec.storage_class_name or "", claim.size), claim)
    return bounds, to_make


def claims_to_place(pod: Pod, storage: Storage) -> list[Claim]:
    """Return the claims of the pod whose volumes are made once a node is written on the claim, and on which none is
    written yet.
    """
    claims = map(storage.claim, pod.volume_claims)
    return [claim for claim in claims if claim is not None and not claim.selected_node and _waits(claim, storage)]


def given_back(before: Claim, now: Claim) -> str:
    """Return the node that had been chosen for the claim's volume, if the driver has taken the choice back; empty if it
    has not.
    """
    return before.selected_node if not now.selected_node and not now.is_bound else ""


def claims_under_way(pod: Pod, storage: Storage) -> list[Claim]:
    """Return the claims of the pod whose volumes are being made, or were just made and are not known yet."""
    claims = map(storage.claim, pod.volume_claims)
    return [claim for claim in claims if claim is not None and _is_under_way(claim, storage)]


def _is_under_way(claim: Claim, storage: Storage) -> bool:
    if not claim.selected_node:
        return False
    return storage.volume(claim.spec.volume_name) is None if claim.is_bound else _is_made_late(claim, storage)


def storage_asked(claim: Claim) -> tuple[Asked, ...]:
    """Return the class and size of the claim's volume, if it may have to be made and no node is chosen yet."""
    is_open = bool(claim.size) and not claim.selected_node and not claim.spec.volume_name
    return ((claim.spec.storage_class_name or "", claim.size),) if is_open else ()


def find_user(claim: Key, but: Pod, pods: Iterable[Pod]) -> str:
    """Return the name of another pod among `pods` that is on a node and uses the claim; empty if there is none."""
    return next((pod.name for pod in pods if pod.uid != but.uid and claim in claims_used(pod)), "")


def claims_used(pod: Pod) -> tuple[Key, ...]:
    """Return the claims of a pod that has a node and has not finished; otherwise none."""
    return pod.volume_claims if pod.spec.node_name and not pod.is_finished else ()


def claims_awaited(pod: Pod) -> tuple[Key, ...]:
    """Return the claims of a pod that has no node yet; otherwise none."""
    return pod.volume_claims if not pod.spec.node_name and not pod.is_finished else ()


def _bound(pod: Pod, key: Key, storage: Storage) -> _Bound | str | None:
    """Return on which nodes a claim allows its pod to be; None if it allows every node. If the pod has to wait for the
    claim, return the reason as text.
    """
    claim, name = storage.claim(key), key[1]
    whose = f"claim {name} of pod {pod.name}"
    if claim is None:
        return f"{whose} is not there"
    if claim.is_deleting:
        return f"{whose} is being deleted"
    if claim.is_for_one_pod and (other := storage.user_of(claim.key, pod)):
        return f"{whose} is for one pod (ReadWriteOncePod), and pod {other} uses it"
    if claim.is_bound:
        volume = storage.volume(claim.spec.volume_name)
        return (
            f"volume {claim.spec.volume_name} of {whose} is not there" if volume is None else _of_volume(volume, name)
        )
    found = storage.storage_class(claim.spec.storage_class_name or "")
    if found is None or not found.waits_for_consumer or claim.spec.volume_name:
        return f"{whose} is not bound to a volume yet"
    if claim.selected_node:
        return _on_node(claim.selected_node, name)
    if not found.makes_volumes:
        return (
            f"{whose} waits for its first consumer, and no provisioner makes volumes of class {found.name}: "
            "name an existing one in its spec.volumeName"
        )
    return _of_class(found, name)


def _waits(claim: Claim, storage: Storage) -> bool:
    return not claim.spec.volume_name and _is_made_late(claim, storage)


def _is_made_late(claim: Claim, storage: Storage) -> bool:
    found = storage.storage_class(claim.spec.storage_class_name or "")
    return found is not None and found.waits_for_consumer and found.makes_volumes


def _has_reported_capacity(claim: Claim, storage: Storage) -> bool:
    found = storage.storage_class(claim.spec.storage_class_name or "")
    driver = storage.driver(found.provisioner) if found is not None else None
    return driver is not None and driver.spec.storage_capacity is True and bool(claim.size)


def _why_full(claim: Claim) -> str:
    return f"without {claim.size} of free storage in class {claim.spec.storage_class_name} (claim {claim.name})"


def _on_node(node: str, claim: str) -> _Bound:
    """Return the rule that the pod has to be on the node for which its volume is being made. A second choice could come
    too late; a driver that cannot make the volume there takes the choice back.
    """
    here = NodeSelectorTerm(match_fields=(_is_in("metadata.name", (node,)),))
    why_not = f"out of reach of the volume that is made on node {node} (claim {claim})"
    return NodeSelector(node_selector_terms=(here,)), why_not


def _of_volume(volume: Volume, claim: str) -> _Bound | None:
    why_not = f"out of reach of volume {volume.name} (claim {claim})"
    affinity = volume.spec.node_affinity
    return (affinity.required, why_not) if affinity is not None and affinity.required is not None else None


def _of_class(found: StorageClass, claim: str) -> _Bound | None:
    lines = [
        [_is_in(line.key, line.values) for line in term.match_label_expressions] for term in found.allowed_topologies
    ]
    terms = tuple(NodeSelectorTerm(match_expressions=tuple(each)) for each in lines)
    why_not = f"outside the topologies of storage class {found.name} (claim {claim})"
    return (NodeSelector(node_selector_terms=terms), why_not) if terms else None


def _is_in(key: str, values: Iterable[str]) -> SelectorRequirement:
    return SelectorRequirement(key=key, operator="In", values=frozenset(values))
