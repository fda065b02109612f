"""Finds nodes that have too little left of a resource that Slurm does not count, such as ephemeral-storage, hugepages
or rdma.

Pods with the same requests share an answer, which is kept while pods wait. After a change, the answer is worked out
again only for the nodes that changed: hundreds of pods may wait for one rdma device, and each binding changes a node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from sunkpy.core.model import matching
from sunkpy.core.model.objects import PodSpec
from sunkpy.core.placement.eligibility import Candidate, full_nodes
from sunkpy.core.placement.needs import taken_uncounted, uncounted
from sunkpy.runtime.verdicts import CachedVerdict, Verdicts
from sunkpy.scheduler.nodes.candidates import Held

Full = Mapping[str, str]
"""Slurm node → which resource it lacks, in words."""


@dataclass(slots=True, eq=False)
class Question:
    """A cached question: which nodes are too full for pods with these requests? `needs`: the requests that Slurm does
    not count. `known`: for each Slurm node, the facts from which the answer was found, and why the node is full (empty
    text if it is not).
    """

    needs: matching.Amounts
    known: dict[str, tuple[Candidate, matching.Amounts | None, str]] = field(default_factory=dict)


FullNodes = CachedVerdict[Question, Full]


class Fullness:
    """Answers which nodes have too little left for a pod of the resources that Slurm does not count. `candidates`
    returns the nodes. `on_change` is called when an answer that somebody has asked for may have changed.
    """

    def __init__(
        self, candidates: Callable[[], Sequence[Candidate]], *, counted: Collection[str], on_change: Callable[[], None]
    ) -> None:
        self._candidates = candidates
        self._counted = counted
        self._on_change = on_change
        self.held = Held(partial(taken_uncounted, gpu_resources=counted), lambda _: self.doubt())
        """For each node: what the scheduler's pods that have a job take of resources that Slurm does not count. The
        watch of these pods keeps the sums up to date.
        """
        self._answers: Verdicts[Question, Full] = Verdicts(self._work_out)

    def doubt(self) -> None:
        """Mark all answers as outdated, because a node has changed, or what pods hold there."""
        if self._answers.doubt():
            self._on_change()

    def of(self, specs: Iterable[PodSpec]) -> tuple[FullNodes, ...]:
        """Return, for each spec that requests a resource that Slurm does not count, a cached answer: which nodes have
        too little left of it. There is no answer for a spec without such a resource. The number of pods on a node is
        not such a resource here.
        """
        asked = (self._needs(spec) for spec in specs)
        return tuple(
            self._answers.of(msgspec.json.encode(needs, order="sorted"), Question(needs))
            for needs in asked
            if needs.keys() - {"pods"}
        )

    def holds(self, answer: FullNodes) -> bool:
        """True if a cached answer to the question which nodes are too full for certain pods would still be the same
        now.
        """
        return self._answers.holds(answer)

    def too_many_pods(self, specs: Iterable[PodSpec], *, refusing: Collection[str]) -> Full:
        """Return which of the Slurm nodes in `refusing`, where a kubelet has refused a pod, are still too full for a
        pod with one of these specs, each with the reason. That includes nodes that already have as many pods as their
        kubelet accepts.
        """
        nodes = [each for each in self._candidates() if each.slurm_node in refusing] if refusing else []
        full: dict[str, str] = {}
        for needs in (self._needs(spec) for spec in specs) if nodes else ():
            full |= full_nodes(needs, nodes, self.held.by_node)
        return full

    def _needs(self, spec: PodSpec) -> matching.Amounts:
        return uncounted(spec, gpu_resources=self._counted)

    def _work_out(self, question: Question) -> Full:
        before, question.known = question.known, {}
        for node in self._candidates():
            held = self.held.by_node.get(node.node.name)
            known = before.get(node.slurm_node)
            if known is None or known[0] is not node or known[1] is not held:
                known = (node, held, full_nodes(question.needs, [node], self.held.by_node).get(node.slurm_node, ""))
            question.known[node.slurm_node] = known
        return {name: why for name, (_, _, why) in question.known.items() if why}
