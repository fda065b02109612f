"""Where storage is free, as CSI drivers report it in CSIStorageCapacity objects. There may be one for each node and
storage class, and a cluster has thousands of nodes.

Many gangs (groups of pods) ask about the same storage class and size, so the answer for them is kept until a change
concerns it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sunkpy.core.model import matching
from sunkpy.core.model.objects import Node
from sunkpy.core.model.storage import FreeStorage
from sunkpy.core.placement.eligibility import Candidate

Asked = tuple[str, str]
"""The storage class and the size of a volume that is to be made."""

_Names = tuple[str, ...]
_Values = tuple[str | None, ...]


class FreeRoom:
    """The CSIStorageCapacity objects of a watch, by storage class, by the node labels that they name, and by the values
    of these labels.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[_Names, dict[_Values, dict[str, FreeStorage]]]] = {}
        self._without: dict[Asked, frozenset[str]] = {}
        self._candidates: Sequence[Candidate] = ()

    def follow(self, old: FreeStorage | None, new: FreeStorage | None) -> None:
        """Take in one change of a CSIStorageCapacity object. `old` is None for a new object, `new` for a deleted one.
        This is a handler for an informer.
        """
        if old is not None and old.node_topology is not None:
            by_names = self._known.get(old.storage_class_name, {})
            names, values = _place(old)
            by_values = by_names.get(names, {})
            found = by_values.get(values, {})
            found.pop(old.uid, None)
            if not found:
                by_values.pop(values, None)
            if not by_values:
                by_names.pop(names, None)
        if new is not None and new.node_topology is not None:
            names, values = _place(new)
            by_values = self._known.setdefault(new.storage_class_name, {}).setdefault(names, {})
            by_values.setdefault(values, {})[new.uid] = new
        for asked in [each for each in self._without if decides(each, old, new)]:
            del self._without[asked]

    def has_room(self, asked: Asked, node: Node) -> bool:
        """True if a volume of this class and size can be made for the node, as the driver reports."""
        name, size = asked
        return any(
            each.holds(size)
            and each.node_topology is not None
            and matching.matches_labels(each.node_topology, node.labels)
            for names, by_values in self._known.get(name, {}).items()
            for each in by_values.get(tuple(node.labels.get(label) for label in names), {}).values()
        )

    def without(self, asked: Asked, candidates: Sequence[Candidate]) -> frozenset[str]:
        """Return the Slurm nodes without room for a volume of this class and size. The answer is kept until the
        candidates change, or a change of free storage concerns it.
        """
        if self._candidates is not candidates:
            self._candidates = candidates
            self._without.clear()
        found = self._without.get(asked)
        if found is None:
            found = frozenset(each.slurm_node for each in candidates if not self.has_room(asked, each.node))
            self._without[asked] = found
        return found


def decides(asked: Asked, before: FreeStorage | None, now: FreeStorage | None) -> bool:
    """True if this change of a CSIStorageCapacity may alter where a volume of this class and size (`asked`) can be
    made.
    """
    held, holds = (
        [each.node_topology]
        if each is not None and each.storage_class_name == asked[0] and each.holds(asked[1])
        else []
        for each in (before, now)
    )
    return held != holds


def _place(free: FreeStorage) -> tuple[_Names, _Values]:
    labels = free.node_topology.match_labels if free.node_topology is not None else {}
    names = tuple(sorted(labels))
    return names, tuple(labels[name] for name in names)
