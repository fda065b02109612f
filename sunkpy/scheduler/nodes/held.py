"""What pods hold of each node, kept from their watches."""

from __future__ import annotations

from collections.abc import Callable

from sunkpy.core import names
from sunkpy.core.model import matching
from sunkpy.core.model.objects import Pod


class Held:
    """Amounts by Kubernetes node: the sum of what `amounts_of` says of each pod there. `on_change` gets the node."""

    def __init__(
        self, amounts_of: Callable[[Pod], matching.Amounts], on_change: Callable[[str], None] = lambda _: None
    ) -> None:
        self._amounts_of = amounts_of
        self._on_change = on_change
        self.by_node: dict[str, matching.Amounts] = {}

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Follow one change of a watch."""
        if old is not None and new is not None and _facts(old) == _facts(new):
            return
        if old is not None:
            self._put(old.spec.node_name, matching.subtracted(self._on(old), self._amounts_of(old)))
        if new is not None:
            self._put(new.spec.node_name, matching.added(self._on(new), self._amounts_of(new)))

    def _on(self, pod: Pod) -> matching.Amounts:
        return self.by_node.get(pod.spec.node_name, {})

    def _put(self, node: str, amounts: matching.Amounts) -> None:
        left = {name: amount for name, amount in amounts.items() if amount}
        if left == self.by_node.get(node, {}):
            return
        if left:
            self.by_node[node] = left
        else:
            self.by_node.pop(node)
        self._on_change(node)


def _facts(pod: Pod) -> tuple[object, ...]:
    return (pod.spec, pod.is_finished, names.ANNOTATION_JOB_ID in pod.annotations)
