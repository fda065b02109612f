"""Which pods belong to which gang, kept from the watch of the pods that name this scheduler."""

from __future__ import annotations

from collections.abc import Sequence

from sunkpy.core.gang import families
from sunkpy.core.gang.families import FAMILIES, Families
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Pod


class MemberIndex:
    """Pods by gang. A handler of the informer, and the only place in the shell that asks the families."""

    def __init__(self, known: Families = FAMILIES) -> None:
        self._families = known
        self._pods: dict[GangId, dict[str, Pod]] = {}
        self._by_node: dict[str, dict[str, Pod]] = {}

    def id_of(self, pod: Pod) -> GangId:
        """The gang that a pod belongs to."""
        return families.identify(pod, families=self._families)

    def pods_of(self, id: GangId) -> Sequence[Pod]:
        """The pods of a gang that are there, in no order."""
        return tuple(self._pods.get(id, {}).values())

    def on_node(self, node: str) -> Sequence[Pod]:
        """The pods of all gangs that are bound to a Kubernetes node."""
        return tuple(self._by_node.get(node, {}).values())

    def assemble(self, id: GangId, pods: Sequence[Pod]) -> Gang | None:
        """The gang made of these pods; None when there are none."""
        return families.assemble(id, pods, families=self._families) if pods else None

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Follow one change of the informer's store."""
        if old is not None:
            id = self.id_of(old)
            self._pods.get(id, {}).pop(old.uid, None)
            if not self._pods.get(id):
                self._pods.pop(id, None)
            self._by_node.get(old.spec.node_name, {}).pop(old.uid, None)
            if not self._by_node.get(old.spec.node_name):
                self._by_node.pop(old.spec.node_name, None)
        if new is not None:
            if new.spec.node_name:
                self._by_node.setdefault(new.spec.node_name, {})[new.uid] = new
            self._pods.setdefault(self.id_of(new), {})[new.uid] = new
