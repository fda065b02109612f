"""What a NodeSet needs from its nodes, read from its spec once for all nodes."""

from __future__ import annotations

from typing import Self

import msgspec

from sunkpy.core.model.objects import PodSpec
from sunkpy.core.nodeset.feasibility import NodeDemand
from sunkpy.core.nodeset.slurmd_pod import template_hash
from sunkpy.core.nodeset.spec import NodeSet


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The NodeSet, what its template needs from a node, and the fingerprint of a pod that is made from it now.

    Verdicts may read of `nodeset` only uid, name, namespace, spec and whether it is being deleted. Its status and
    version may be old.
    """

    nodeset: NodeSet
    asked: NodeDemand
    hash: str

    @classmethod
    def read(cls, nodeset: NodeSet) -> Self:
        """Read what this NodeSet needs from a node.

        Raises:
            msgspec.ValidationError: the template is not a pod template.
            quantity.BadQuantity: a quantity of the template cannot be read.
        """
        # A NodeSet that is being deleted can go whatever its template is.
        spec = PodSpec() if nodeset.is_deleting else nodeset.pod_spec
        asked = NodeDemand.read(spec, nodeset.spec.gpu)
        return cls(nodeset=nodeset, asked=asked, hash=template_hash(nodeset))

    def is_still_of(self, nodeset: NodeSet) -> bool:
        """True if the NodeSet has not changed in anything that a verdict reads."""
        mine = self.nodeset
        return (mine.uid, mine.is_deleting, mine.spec) == (nodeset.uid, nodeset.is_deleting, nodeset.spec)
