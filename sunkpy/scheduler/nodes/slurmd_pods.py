"""Which slurmd pod runs which Slurm node, on which Kubernetes node."""

from __future__ import annotations

from collections.abc import Iterable

from sunkpy.core.model.objects import Pod
from sunkpy.core.model.slurmd import is_slurmd, slurm_node_of
from sunkpy.runtime.groups import Watched


class SlurmdIndex:
    """Slurmd pods by both of their nodes. `update` is a handler of their informer."""

    def __init__(self) -> None:
        self._by_slurm_node: Watched[str, Pod] = Watched(lambda pod: [slurm_node_of(pod)] if is_slurmd(pod) else [])
        self._by_node: Watched[str, Pod] = Watched(lambda pod: [pod.spec.node_name] if is_slurmd(pod) else [])

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Follow one change of the watch."""
        self._by_slurm_node.follow(old, new)
        self._by_node.follow(old, new)

    def pod_of(self, slurm_node: str) -> Pod | None:
        """The slurmd pod of a Slurm node; of several, one that is not ending."""
        return _best(self._by_slurm_node.of(slurm_node))

    def slurm_node_on(self, node: str) -> str:
        """The Slurm node whose slurmd runs on a Kubernetes node; empty when there is none."""
        pod = _best(self._by_node.of(node))
        return slurm_node_of(pod) if pod is not None else ""


def _best(pods: Iterable[Pod]) -> Pod | None:
    return min(pods, key=lambda pod: (pod.is_finished, pod.is_deleting), default=None)
