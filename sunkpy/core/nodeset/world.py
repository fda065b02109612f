"""What a pass over one NodeSet looks at: the input of the decision, collected by the operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import datetime

import msgspec

from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.nodeset.spec import NodeSet


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a pass looks at.

    `slurmd_pods` are those of all NodeSets; `occupants` lists the pods on a node (any pods; those of this NodeSet are
    left out here); `failures` counts by node how often its pod has failed in a row; `create_error` is what the
    apiserver said when it last refused a pod of the present template, tried or only asked about. `changed_offers` has
    the uids of own pods whose nodes have offered something else than they were made for, for a while;
    `offers_settle_in_s` is when another one may join them.
    """

    nodeset: NodeSet
    nodes: Mapping[str, Node]
    slurmd_pods: Sequence[Pod]
    occupants: Mapping[str, Sequence[Pod]] = {}
    failures: Mapping[str, int] = {}
    create_error: str = ""
    changed_offers: Set[str] = frozenset()
    offers_settle_in_s: float | None = None
    now: datetime

    @property
    def own_pods(self) -> list[Pod]:
        """The slurmd pods of this NodeSet, whatever node they are on and however old their template."""
        return [pod for pod in self.slurmd_pods if self.nodeset.owns(pod)]

    @property
    def foreign_pods(self) -> list[Pod]:
        """The slurmd pods of all other NodeSets: their nodes and names are taken."""
        return [pod for pod in self.slurmd_pods if not self.nodeset.owns(pod)]
