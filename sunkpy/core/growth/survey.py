"""Builds from Slurm's nodes and partitions, and from Kubernetes, what growth knows of each NodeSet: its `Pool`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.figures.nodes import PartitionRow
from sunkpy.core.growth.pools import Pool, Room
from sunkpy.core.model.capacity import Capacity
from sunkpy.core.model.gres import gres_counts
from sunkpy.core.model.growth import RECORD_MARK
from sunkpy.core.model.matching import Amounts
from sunkpy.core.model.states import SlurmNode

_KEPT_FOR_SOME: Final = frozenset({"RESERVED", "MAINTENANCE"})


class Members(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeSet and its nodes, as Kubernetes shows them. `nodes`: all of them, whether or not Slurm has them yet.

    `joining`: nodes that should register in Slurm soon. `late`: nodes that should have registered by now. `returning`:
    nodes that will take jobs again once they are idle, because a rollout replaces their slurmd pods. `features`: the
    features that each of its nodes has. `offer`: what one of its nodes offers, or would offer, in words of
    slurm.conf(5).
    """

    name: str
    potential: int = 0
    weight: int = 1
    features: frozenset[str] = frozenset()
    offer: str = ""
    nodes: frozenset[str] = frozenset()
    joining: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    returning: frozenset[str] = frozenset()


def find_pools(
    nodesets: Iterable[Members],
    slurm_nodes: Mapping[str, SlurmNode],
    partitions: Iterable[PartitionRow],
    in_use: Mapping[str, Mapping[str, int]],
) -> list[Pool]:
    """Return what growth knows of each NodeSet (`Pool`), and a last pool without a name for all nodes without a
    NodeSet.

    `in_use`: node → GRES → how many of that GRES jobs have there.
    """
    known = list(nodesets)
    of = {node: each.name for each in known for node in each.nodes}
    serving = _serving(partitions, of)
    found = [_pool(each, slurm_nodes, serving[each.name], in_use) for each in known]
    others = Members(name="", nodes=frozenset(slurm_nodes.keys() - of.keys()))
    return [*found, _pool(others, slurm_nodes, serving[""], in_use)]


def devices_in_use(jobs: Iterable[JobRow]) -> Mapping[str, Mapping[str, int]]:
    """Return node → GRES → how many of that GRES jobs have there. Only jobs count whose devices Slurm names."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for job in jobs:
        for node, indices in job.devices.items():
            for gres, those in indices.items():
                found[node][gres] += len(those)
    return found


def read_offer(text: str) -> tuple[Amounts | None, frozenset[str]]:
    """Return what a node with this line of slurm.conf offers to jobs, and the node's features. The first is None if the
    line lacks the CPUs or the memory.

    Example: `CPUs=96 RealMemory=900000 Gres=gpu:h100:8 Feature=gpu`.
    """
    words = dict(word.split("=", 1) for word in text.split() if "=" in word)
    features = frozenset(filter(None, words.get("Feature", "").split(",")))
    if not (words.get("CPUs", "").isdecimal() and words.get("RealMemory", "").isdecimal()):
        return None, features
    kept = int(words.get("CoreSpecCount", 0)) * int(words.get("ThreadsPerCore", 1))
    offer = Capacity(
        cpus=int(words["CPUs"]) - kept, memory_mib=int(words["RealMemory"]), gres=gres_counts(words.get("Gres", ""))
    )
    return offer.amounts, features


def _serving(partitions: Iterable[PartitionRow], of: Mapping[str, str]) -> defaultdict[str, set[str]]:
    """Return NodeSet → its Slurm partitions: those with one of its nodes, or with Slurm's record of a node that it may
    get later. `of`: node → its NodeSet.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for partition in partitions:
        for node in partition.nodes:
            nodeset, is_record, _ = node.partition(RECORD_MARK)
            found[nodeset if is_record else of.get(node, "")].add(partition.name)
    return found


def _pool(
    each: Members,
    slurm_nodes: Mapping[str, SlurmNode],
    partitions: set[str],
    in_use: Mapping[str, Mapping[str, int]],
) -> Pool:
    own = [slurm_nodes[name] for name in each.nodes if name in slurm_nodes]
    registered = [node for node in own if node.is_registered]
    taking = [node for node in registered if node.is_open and node.state.isdisjoint(_KEPT_FOR_SOME)]
    offered, of_offer = read_offer(each.offer)
    shape = _usual(registered) or offered
    shared = frozenset.intersection(*(node.features for node in registered)) if registered else of_offer
    features = each.features | shared
    used = {node.name for node in own if node.is_busy} | {node.name for node in taking}
    coming = sorted((each.joining - {node.name for node in registered}) | (each.returning - used))
    rooms = [
        *_rooms(taking, in_use),
        *(Room(node=name, left=shape or {}, is_whole=True, features=features) for name in coming),
    ]
    return Pool(
        name=each.name,
        partitions=partitions,
        features=features,
        shape=shape,
        nodes=each.nodes,
        usable=len(taking) + len(coming),
        unregistered=each.late - {node.name for node in own if not node.is_invalid},
        joining=len(coming),
        potential=each.potential,
        weight=each.weight,
        rooms=tuple(rooms),
    )


def _rooms(nodes: Iterable[SlurmNode], in_use: Mapping[str, Mapping[str, int]]) -> Iterator[Room]:
    """Yield the free room (what jobs can still get) of each of these nodes that has a free CPU."""
    for node in sorted(nodes, key=lambda each: each.name):
        free = node.usable_cpus - node.alloc_cpus
        if free > 0:
            taken = in_use.get(node.name, {})
            has = _offers(node)
            left = {name: max(0, amount - taken.get(name, 0)) for name, amount in has.items()}
            left["cpu"] = free * 1000
            left["memory"] = max(0, has.get("memory", 0) - node.alloc_memory_mib * 2**20)
            yield Room(node=node.name, left=left, is_whole=not node.is_busy, features=node.features)


def _usual(nodes: Iterable[SlurmNode]) -> Amounts | None:
    counts = Counter(tuple(sorted(_offers(node).items())) for node in nodes if node.cpus)
    if not counts:
        return None
    usual = max(sorted(counts), key=counts.__getitem__)
    return dict(usual)


def _offers(node: SlurmNode) -> Amounts:
    memory_mib = node.effective_memory_mib or node.memory_mib
    return Capacity(cpus=node.usable_cpus, memory_mib=memory_mib, gres=gres_counts(node.gres)).amounts
