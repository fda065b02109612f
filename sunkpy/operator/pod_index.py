"""An index of the cluster's pods by the node they are on, because decisions and changes are about nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from sunkpy.core.model.objects import Key, KubeObject, Pod
from sunkpy.core.model.slurmd import is_slurmd, nodeset_owner
from sunkpy.core.nodeset.slurmd_pod import node_of

_ASSUMED_FOR_S = 30.0

Touched = Callable[[str], None]
"""A function that is called with the name of a node whose pods have changed."""


def nodeset_key(pod: Pod) -> Key | None:
    """Return the key of the NodeSet that controls the pod, whether or not it still exists; None for other pods."""
    owner = nodeset_owner(pod)
    return (pod.metadata.namespace, owner.name) if owner is not None else None


class PodIndex:
    """The cluster's pods by node: from the informer, and slurmd pods that were created and that the informer does not
    show yet.

    A pod that the apiserver has accepted but the watch has not yet shown is *assumed*. If it did not count, the next
    pass would think that its node is free, and a NodeSet that is being deleted would look empty.

    A pod is a slurmd pod only if uid and namespace of its owner are those of a NodeSet that was seen here, because
    anybody can write an owner reference. Pods of a NodeSet that is gone still count.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._by_node: dict[str, dict[Key, Pod]] = {}
        self._assumed: dict[Key, tuple[float, Pod]] = {}  # oldest first
        self._assumed_on: dict[str, dict[Key, Pod]] = {}
        self._nodesets: dict[str, str] = {}  # uid → namespace
        self._touched: list[Touched] = []

    def add_handler(self, touched: Touched) -> None:
        """From now on, call this function with the name of each node whose pods change, or begin to count as slurmd
        pods.
        """
        self._touched.append(touched)

    def know(self, nodeset: KubeObject) -> None:
        """Note that this NodeSet exists, so that its pods count as slurmd pods."""
        if nodeset.uid in self._nodesets:
            return
        self._nodesets[nodeset.uid] = nodeset.metadata.namespace
        for node, pods in self._by_node.items():
            if any(_owner_uid(pod) == nodeset.uid for pod in pods.values()):
                self._notify(node)

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Follow one change of a pod that the informer reports. It replaces what was assumed about this pod."""
        for pod in (old, new):
            if pod is not None:
                self._give_up(pod.key)
        if old is not None and (node := node_of(old)) in self._by_node:
            self._by_node[node].pop(old.key, None)
            if not self._by_node[node]:
                del self._by_node[node]
        if new is not None and (new.spec.node_name or is_slurmd(new)):
            self._by_node.setdefault(node_of(new), {})[new.key] = new
        for node in {node_of(pod) for pod in (old, new) if pod is not None}:
            self._notify(node)

    def assume(self, pod: Pod) -> None:
        """Count a slurmd pod that the apiserver has just accepted as being there, until the watch shows it."""
        node = node_of(pod)
        if pod.key not in self._by_node.get(node, {}):
            self._give_up(pod.key)
            self._assumed[pod.key] = (self._now(), pod)
            self._assumed_on.setdefault(node, {})[pod.key] = pod
            self._notify(node)

    def expire(self) -> None:
        """Stop counting created pods that no watch has shown within half a minute. Such a pod has gone again, or the
        watch is far behind.
        """
        limit = self._now() - _ASSUMED_FOR_S
        while self._assumed:
            key, (since_s, _) = next(iter(self._assumed.items()))
            if since_s > limit:
                return
            self._give_up(key)

    def nodes(self) -> Iterable[str]:
        """Return the names of the nodes that have pods, or for which a slurmd pod was created."""
        return {*self._by_node, *self._assumed_on}

    def slurmd_pods(self, node: str) -> list[Pod]:
        """Return the slurmd pods on a node or pinned to it, of all NodeSets, also those that were created and are not
        shown yet.
        """
        return [*filter(self._is_slurmd, self.on_node(node)), *self._assumed_on.get(node, {}).values()]

    def on_node(self, node: str) -> Iterable[Pod]:
        """Return the pods that are bound to a node, and slurmd pods that are only pinned to it. Assumed pods are not
        among them.
        """
        return self._by_node.get(node, {}).values()

    def slurmd_on(self, node: str) -> Pod | None:
        """Return the slurmd pod that is bound to the node; None without one. Of several, prefer one that is not
        finished, and among these the oldest.
        """
        bound = [pod for pod in self.on_node(node) if self._is_slurmd(pod) and pod.spec.node_name]
        return min(bound, key=lambda pod: (pod.is_finished, pod.metadata.creation_timestamp, pod.uid), default=None)

    def _is_slurmd(self, pod: Pod) -> bool:
        uid = _owner_uid(pod)
        return uid is not None and self._nodesets.get(uid) == pod.metadata.namespace

    def _give_up(self, key: Key) -> None:
        """Stop assuming that this pod, which the apiserver has accepted, is there; do nothing if it is not assumed."""
        _, pod = self._assumed.pop(key, (0.0, None))
        if pod is None:
            return
        node = node_of(pod)
        del self._assumed_on[node][key]
        if not self._assumed_on[node]:
            del self._assumed_on[node]
        self._notify(node)

    def _notify(self, node: str) -> None:
        for touched in self._touched:
            touched(node)


def _owner_uid(pod: Pod) -> str | None:
    owner = nodeset_owner(pod)
    return owner.uid if owner is not None else None
