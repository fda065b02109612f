"""Which nodes are full for pods that ask alike, of what Slurm does not count: ephemeral-storage, hugepages, rdma.

It is kept for those that wait, and worked out again after a change, for the nodes alone that changed: hundreds of pods
may wait for one rdma device, and each pod that is bound changes what some node holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from sunkpy.core.model import matching
from sunkpy.core.model.objects import PodSpec
from sunkpy.core.placement.eligibility import Candidate
from sunkpy.core.placement.occupancy import full_nodes, taken_uncounted, uncounted
from sunkpy.runtime.verdicts import CachedVerdict, Verdicts
from sunkpy.scheduler.nodes.candidates import Held

Full = Mapping[str, str]
"""Slurm node → what is lacking there, in words."""


@dataclass(slots=True, eq=False)
class Question:
    """What pods ask for, and the answer for each node with what decided it."""

    needs: matching.Amounts
    known: dict[str, tuple[Candidate, matching.Amounts | None, str]] = field(default_factory=dict)


FullNodes = CachedVerdict[Question, Full]


class Fullness:
    """`candidates` gives the nodes; `on_change` is called when the answer may have changed for a pod that waits."""

    def __init__(
        self, candidates: Callable[[], Sequence[Candidate]], *, counted: Collection[str], on_change: Callable[[], None]
    ) -> None:
        self._candidates = candidates
        self._counted = counted
        self._on_change = on_change
        self.held = Held(partial(taken_uncounted, gpu_resources=counted), lambda _: self.doubt())
        """What pods with a job take of it, kept from the watch of own pods."""
        self._answers: Verdicts[Question, Full] = Verdicts(self._work_out)

    def doubt(self) -> None:
        """A node has changed, or what pods hold there."""
        if self._answers.doubt():
            self._on_change()

    def of(self, specs: Iterable[PodSpec]) -> tuple[FullNodes, ...]:
        """An answer for each spec that asks for something that Slurm does not count (other than the number of pods)."""
        asked = (self._needs(spec) for spec in specs)
        return tuple(
            self._answers.of(msgspec.json.encode(needs, order="sorted"), Question(needs))
            for needs in asked
            if needs.keys() - {"pods"}
        )

    def holds(self, answer: FullNodes) -> bool:
        """True if the answer would be the same now."""
        return self._answers.holds(answer)

    def too_many_pods(self, specs: Iterable[PodSpec], *, refusing: Collection[str]) -> Full:
        """Which of the nodes in `refusing`, which have refused a pod, still have too many pods, and why."""
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
