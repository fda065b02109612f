"""The pods of the cluster, indexed as the decisions ask for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from sunkpy.core.model.objects import Key, Pod
from sunkpy.core.model.slurmd import is_slurmd, nodeset_owner
from sunkpy.core.nodeset.slurmd_pod import node_of

_ASSUMED_FOR_S = 30.0


def nodeset_key(pod: Pod) -> Key | None:
    """The NodeSet that controls the pod, if one does; whether it is still there is another question."""
    owner = nodeset_owner(pod)
    return (pod.metadata.namespace, owner.name) if owner is not None else None


class PodIndex:
    """Pods by node, and slurmd pods; fed by the informer, ahead of it by the pods that were just created.

    A pod that the apiserver has accepted but the watch has not yet shown is *assumed*: without it the next pass would
    think its node free, and a NodeSet that is being deleted would look empty.

    Only pods of NodeSets that were seen here, by uid, count as slurmd pods; those of a NodeSet that is gone still do.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._by_node: dict[str, dict[Key, Pod]] = {}
        self._slurmd: dict[Key, Pod] = {}
        self._assumed: dict[Key, tuple[float, Pod]] = {}
        self._now = now
        self._nodesets: set[str] = set()

    def know(self, nodeset_uid: str) -> None:
        """There is such a NodeSet."""
        self._nodesets.add(nodeset_uid)

    def _is_slurmd(self, pod: Pod) -> bool:
        owner = nodeset_owner(pod)
        return owner is not None and owner.uid in self._nodesets

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Follow one change of the informer's store: what the watch says counts more than what was assumed."""
        for pod in (old, new):
            if pod is not None:
                self._assumed.pop(pod.key, None)
        if old is not None:
            self._by_node.get(node_of(old), {}).pop(old.key, None)
            self._slurmd.pop(old.key, None)
        if new is not None:
            if new.spec.node_name or is_slurmd(new):
                self._by_node.setdefault(node_of(new), {})[new.key] = new
            if is_slurmd(new):
                self._slurmd[new.key] = new

    def assume(self, pod: Pod) -> None:
        """The apiserver has just accepted this slurmd pod."""
        if pod.key not in self._slurmd:
            self._assumed[pod.key] = (self._now(), pod)

    def slurmd_pods(self) -> list[Pod]:
        """Those of all NodeSets, the assumed ones included; an assumption ends after half a minute."""
        limit = self._now() - _ASSUMED_FOR_S
        self._assumed = {key: entry for key, entry in self._assumed.items() if entry[0] > limit}
        return [*filter(self._is_slurmd, self._slurmd.values()), *(pod for _, pod in self._assumed.values())]

    def by_node(self) -> Mapping[str, Sequence[Pod]]:
        """Node → its pods: the bound ones, and slurmd pods that are only pinned to it."""
        return {node: tuple(pods.values()) for node, pods in self._by_node.items()}

    def on_node(self, node: str) -> Iterable[Pod]:
        """The same for one node, without a copy."""
        return self._by_node.get(node, {}).values()

    def slurmd_on(self, node: str) -> Pod | None:
        """The slurmd pod that is bound to the node: one that is not finished first, then the oldest."""
        bound = [pod for pod in self.on_node(node) if self._is_slurmd(pod) and pod.spec.node_name]
        return min(bound, key=lambda pod: (pod.is_finished, pod.metadata.creation_timestamp, pod.uid), default=None)
