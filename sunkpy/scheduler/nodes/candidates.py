"""The candidates, the amounts that pods hold there, and which candidates are too full for a pod.

A candidate is a node that both Slurm and Kubernetes know, on which pods may be placed. It is too full if it has too
little left of a resource that Slurm does not count, such as ephemeral-storage, hugepages or rdma.

A candidate object is used again as long as nothing about its node has changed, because it caches sums. Pods with the
same requests share an answer to the question which nodes are too full, and the answer is kept while pods wait. After a
change, it is worked out again only for the nodes that changed: hundreds of pods may wait for one rdma device, and each
binding changes a node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from sunkpy.core import names
from sunkpy.core.model import matching
from sunkpy.core.model.objects import Node, Pod, PodSpec
from sunkpy.core.model.slurmd import is_slurmd, slurm_node_of
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.placement.eligibility import Candidate, foreign_nodes, full_nodes
from sunkpy.core.placement.needs import taken_uncounted, uncounted
from sunkpy.kube.informer import Informer
from sunkpy.runtime.verdicts import CachedVerdict, Verdicts
from sunkpy.slurm import NodeCache


class Held:
    """For each Kubernetes node, the sum of what the pods there hold, such as CPUs and memory. The pods come from
    watches (`update`), and `amounts_of` says what a pod holds. `on_change` is called with each node whose sum has
    changed.
    """

    def __init__(
        self, amounts_of: Callable[[Pod], matching.Amounts], on_change: Callable[[str], None] = lambda _: None
    ) -> None:
        self._amounts_of = amounts_of
        self._on_change = on_change
        self.by_node: dict[str, matching.Amounts] = {}

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Take one change of a pod in a watch into the sum of its node. `old` is None if the pod is new, `new` if it is
        gone.
        """
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


class Candidates:
    """The nodes on which pods may be placed: those that have a slurmd pod and that Slurm knows. There are none as long
    as the nodes of Slurm have not been read.
    """

    def __init__(self, slurm_nodes: NodeCache, nodes: Informer[Node], slurmd_pods: Informer[Pod], taken: Held) -> None:
        self._slurm_nodes = slurm_nodes
        self._nodes = nodes
        self._slurmd_pods = slurmd_pods
        self._taken = taken
        self._lasting: list[Candidate] = []
        self.foreign: dict[str, SlurmNode] = {}
        self._is_fresh = False
        self._now: list[Candidate] = []

    def now(self) -> list[Candidate]:
        """Return the nodes on which pods may be placed, each with its Slurm node as last read."""
        known = self._known()
        found = (_as_now(c, known.get(c.slurm_node)) for c in self.lasting())
        self._now = _reused(found, self._now)
        return self._now

    def lasting(self) -> list[Candidate]:
        """Return the nodes on which pods may be placed. Each has its Slurm node as it was read when a property that
        lasts (CPUs, memory, GRES, features) last changed, so the state of the Slurm node may be old.
        """
        if not self._is_fresh:
            known = self._known()
            found = (self._candidate(pod, known) for pod in filter(is_slurmd, self._slurmd_pods.values()))
            self._lasting = _reused((c for c in found if c is not None), self._lasting)
            self.foreign = {name: known[name] for name in foreign_nodes(known.values(), self._lasting)}
            self._is_fresh = True
        return self._lasting

    def invalidate(self) -> None:
        """Let the nodes on which pods may be placed be worked out again when they are next asked for, because something
        about them has changed.
        """
        self._is_fresh = False

    def differ(self, changed: Iterable[str]) -> bool:
        """True if CPUs, memory, GRES or features of one of these Slurm nodes now differ from those in the list of nodes
        that was last worked out.
        """
        now = self._known()
        then = {**{c.slurm_node: c.slurm for c in self._lasting}, **self.foreign} if self._is_fresh else {}
        return any(_size(now.get(name)) != _size(then.get(name)) for name in changed)

    def _known(self) -> dict[str, SlurmNode]:
        observation = self._slurm_nodes.observation
        return observation.nodes if observation is not None else {}

    def _candidate(self, pod: Pod, known: dict[str, SlurmNode]) -> Candidate | None:
        """Return the node of a slurmd pod as a candidate, on which pods may be placed. None if Kubernetes or Slurm does
        not know the node: a job cannot exclude a node that Slurm does not know.
        """
        name = slurm_node_of(pod)
        node, slurm = self._nodes.get("", pod.spec.node_name), known.get(name)
        if node is None or slurm is None:
            return None
        nodeset, taken = pod.labels.get(names.LABEL_NODESET, ""), self._taken.by_node.get(node.name, {})
        return Candidate(slurm_node=name, node=node, slurm=slurm, taken=taken, nodeset=nodeset)


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


def _as_now(candidate: Candidate, slurm: SlurmNode | None) -> Candidate:
    return candidate if slurm is candidate.slurm else msgspec.structs.replace(candidate, slurm=slurm)


def _reused(found: Iterable[Candidate], before: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates in `found`. If a candidate is equal to the one for the same node in `before`, that earlier
    object is returned for it, because it has cached its sums.
    """
    known = {candidate.slurm_node: candidate for candidate in before}
    return [old if (old := known.get(new.slurm_node)) is not None and old == new else new for new in found]


def _size(node: SlurmNode | None) -> tuple[object, ...]:
    return () if node is None else (node.usable_cpus, node.memory_mib, node.gres, node.features)
