"""What a NodeSet needs from its nodes, read from its spec once for all nodes."""

from __future__ import annotations

from typing import Self

import msgspec

from sunkpy.core.model.objects import PodSpec
from sunkpy.core.nodeset.feasibility import NodeDemand
from sunkpy.core.nodeset.slurmd_pod import template_hash
from sunkpy.core.nodeset.spec import NodeSet


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeSet, what its pods need from a node (`asked`), and the fingerprint of its current template (`hash`).

    The rules that judge a node (`verdict.judge`) may read only uid, name, namespace, spec and deletion of `nodeset`.
    Its status and version may be old.
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
        """True if `nodeset` has the same uid, spec and deletion state as the NodeSet from which this object was read.
        Then verdicts on nodes that were made with this object still hold.
        """
        mine = self.nodeset
        return (mine.uid, mine.is_deleting, mine.spec) == (nodeset.uid, nodeset.is_deleting, nodeset.spec)
