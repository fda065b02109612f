"""The sums of all verdicts on the nodes of a NodeSet, updated one verdict at a time: counts, candidates in order, and
lists of pods with rare traits.

An event is about one node: the node's old verdict is taken out of the sums and the new one is put in, which costs the
same among ten nodes and ten thousand. After any sequence of changes the sums are those of the current verdicts; a test
checks that. `decide` reads a survey and does not change it.

A pod that was pinned to one node may be bound to another. Then both nodes are judged again, in any order. Until both
have been judged, the pod counts on both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Set
from typing import TypeVar

from sunkpy.core.health.decide import is_being_verified
from sunkpy.core.model.objects import Node
from sunkpy.core.nodeset.feasibility import Exclusion
from sunkpy.core.nodeset.naming import remembered_name
from sunkpy.core.nodeset.ordered import Ordered, SortKey
from sunkpy.core.nodeset.verdict import NodeVerdict, NodeView, PodVerdict, Trait, judge
from sunkpy.core.nodeset.wanted import Wanted

H = TypeVar("H", bound=Hashable)

_FOUND_AGAIN = frozenset(
    {
        Trait.STAYING_UNREADY,
        Trait.REPLACEABLE,
        Trait.UNTOLD,
        Trait.STRANDED,
        Trait.OLD_TEMPLATE,
        Trait.LEAVING,
        Trait.IDLE,
        Trait.OTHER_OFFER,
        Trait.TO_VERIFY,
        Trait.MARKED,
        Trait.ANSWERED,
        Trait.FINISHED,
        Trait.DELETING,
    }
)
"""The traits for which a survey keeps the pods themselves, in addition to their number."""


class Survey:
    """The sums of the verdicts on all nodes and slurmd pods, for one NodeSet.

    `pods` are its slurmd pods by uid. Three collections are sorted in the order in which their items are taken:
    `staying` are the pods that may stay, of which some are removed if there are too many; `outdated` are the pods that
    a rolling update replaces; `free` are the nodes that fit and have no pod, on which pods are created. `taken_names`
    are the names of all slurmd pods that share a namespace or a Slurm cluster with the NodeSet; `reserved_names` are
    names that pods on free nodes once had.
    """

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.nodes = 0
        self.possible = 0
        self.pods: dict[str, PodVerdict] = {}
        self.counts: Counter[Trait] = Counter()
        self.exclusions: Counter[Exclusion] = Counter()
        self.staying: Ordered[PodVerdict] = Ordered()
        self.outdated: Ordered[PodVerdict] = Ordered()
        self.free: Ordered[Node] = Ordered()
        self.taken_names: Counter[str] = Counter()
        self.reserved_names: Counter[str] = Counter()
        self._verdicts: dict[str, NodeVerdict] = {}
        self._found: dict[Trait, dict[str, PodVerdict]] = {trait: {} for trait in _FOUND_AGAIN}

    def those(self, trait: Trait) -> Mapping[str, PodVerdict]:
        """Return the verdicts on the pods with this trait, by uid. Only some traits (`_FOUND_AGAIN`) are listed so."""
        return self._found[trait]

    @property
    def judged(self) -> Set[str]:
        """The names of the nodes whose verdicts are in the sums. A node that adds nothing (no Node object, no slurmd
        pod) is left out.
        """
        return self._verdicts.keys()

    def look(self, view: NodeView) -> None:
        """Judge one node again, and replace its verdict in the sums.

        Raises:
            quantity.BadQuantity: a quantity of the NodeSet or of the node cannot be read; then the node's old verdict
                stays.
        """
        verdict = judge(self.wanted, view)
        self._take_out(view.name)
        if verdict.node is not None or verdict.pods or verdict.foreign_names:
            self._put_in(view.name, verdict)

    def _put_in(self, name: str, verdict: NodeVerdict) -> None:
        self._verdicts[name] = verdict
        self._count(verdict, 1)
        for judged in verdict.pods:
            uid = judged.pod.uid
            self._forget_pod(self.pods.get(uid))
            self.pods[uid] = judged
            for trait in judged.traits & _FOUND_AGAIN:
                self._found[trait][uid] = judged
            if Trait.STAYING in judged.traits:
                self.staying.put(uid, _surplus_order(judged), judged)
            if Trait.OUTDATED in judged.traits:
                self.outdated.put(uid, judged.order, judged)
        if verdict.node is not None and verdict.fits and not verdict.pods:
            self.free.put(name, self._creation_order(verdict.node), verdict.node)

    def _take_out(self, name: str) -> None:
        verdict = self._verdicts.pop(name, None)
        if verdict is None:
            return
        self._count(verdict, -1)
        for judged in verdict.pods:
            # The pod may have been judged on another node meanwhile.
            if self.pods.get(judged.pod.uid) is judged:
                self._forget_pod(judged)
        self.free.drop(name)

    def _forget_pod(self, judged: PodVerdict | None) -> None:
        """Take a pod out of the survey's lists, because it was judged again or is no longer on the node. None does
        nothing.
        """
        if judged is None:
            return
        uid = judged.pod.uid
        del self.pods[uid]
        for trait in judged.traits & _FOUND_AGAIN:
            del self._found[trait][uid]
        self.staying.drop(uid)
        self.outdated.drop(uid)

    def _count(self, verdict: NodeVerdict, by: int) -> None:
        self.nodes += by * (verdict.node is not None)
        self.possible += by * verdict.fits
        if verdict.exclusion is not None:
            _add(self.exclusions, [verdict.exclusion], by)
        for judged in verdict.pods:
            _add(self.counts, judged.traits, by)
        _add(self.taken_names, [*(judged.pod.name for judged in verdict.pods), *verdict.foreign_names], by)
        if verdict.node is not None and verdict.fits and not verdict.pods:
            name = remembered_name(self.wanted.nodeset, verdict.node)
            _add(self.reserved_names, [name] if name else [], by)

    def _creation_order(self, node: Node) -> SortKey:
        """Return the sort key by which free nodes get pods. Nodes that are Ready and not cordoned come first. Among
        them come first a node whose machine is to be checked, then a node that had a pod of this NodeSet, then the
        oldest.
        """
        return (
            node.spec.unschedulable,
            not node.is_ready,
            not is_being_verified(node),
            remembered_name(self.wanted.nodeset, node) is None,
            node.metadata.creation_timestamp,
        )


def make_survey(wanted: Wanted, views: Iterable[NodeView]) -> Survey:
    """Judge all these nodes for the NodeSet, and return the sums of the verdicts.

    Raises:
        quantity.BadQuantity: a quantity of the NodeSet or of a node cannot be read.
    """
    survey = Survey(wanted)
    for view in views:
        survey.look(view)
    return survey


def _surplus_order(judged: PodVerdict) -> SortKey:
    """Return the sort key by which pods are removed when there are too many. It is `removal_order` with one difference:
    among pods that are marked for removal, and among the others, those whose node no longer fits come first.
    """
    unmarked, *rest = judged.order
    return (unmarked, judged.fits, *rest)


def _add(counts: Counter[H], keys: Iterable[H], by: int) -> None:
    """Add `by` to the count of each key. A count that becomes zero is removed."""
    for key in keys:
        counts[key] += by
        if not counts[key]:
            del counts[key]
