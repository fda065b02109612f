"""The nodes that NodeSets may get later. Slurm has a record of each, in state FUTURE, under a name that no pod has.

Slurm 24.11 refuses a job for more nodes than it knows. Both 24.11 and 26.05 refuse a job for GPUs, memory or features
that no node has. With such records the job waits. Nothing runs on such a node. It is in no list of nodes, neither of
`sinfo` nor of slurmrestd; only its partition names it.

The function `keep_potential` of `start-slurmctld` reads the records as text: a line for each NodeSet, with the number
of records, the beginning of their names, and what each offers. If the offer changes, the names change, too, so that new
records can be made before the old ones are deleted. A NodeSet whose line says 0 stays in the text, because the line
remembers what its nodes offered.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from sunkpy.core.model import quantity
from sunkpy.core.model.growth import RECORD_MARK
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.nodeset.spec import NodeSet, NodeShape

_TOPOLOGY: Final = " Topology="
_FEATURES: Final = " Feature="
_MEMORY: Final = re.compile(r" RealMemory=(\d+)")
_SOCKETS: Final = re.compile(r"\([^)]*\)")


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """Slurm's records (state FUTURE) of nodes that one NodeSet may get later. `offer`: what each node offers, in words
    of slurm.conf(5).

    `topology`: the place of each node, as Slurm 26.05 takes it. Slurm uses a node outside of the tree for no job of
    several nodes.
    """

    nodeset: str
    count: int
    offer: str
    topology: str = ""

    @property
    def line(self) -> str:
        """The line that tells slurmctld's pod about this NodeSet: `90 gpu_potential_1f3c5a CPUs=96 … Feature=gpu
        Topology=tree:all:unknown`.
        """
        words = f"{self.offer}{_TOPOLOGY}{self.topology}" if self.topology else self.offer
        digest = hashlib.sha256(words.encode()).hexdigest()[:6]
        return f"{self.count} {self.nodeset}{RECORD_MARK}{digest} {words}"


class Has(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that a NodeSet has in Slurm. `going`: how many of them are about to go, and may come again."""

    nodes: tuple[SlurmNode, ...] = ()
    going: int = 0


def find_potential(
    nodesets: Iterable[NodeSet], has: Mapping[str, Has], last: Mapping[str, str], *, topology: str = ""
) -> list[Records]:
    """Return the records of possible nodes (state FUTURE) that Slurm should have. `has`: NodeSet → its nodes. `last`:
    NodeSet → what one of its nodes offered when that was last known. `topology`: the place for nodes whose place nobody
    knows.

    A NodeSet has no records if nobody knows what its nodes would offer: `why_none` says so.
    """
    found = []
    for nodeset in sorted(nodesets, key=lambda each: each.name):
        own = has.get(nodeset.name, Has())
        known = last.get(nodeset.name, "")
        offer = _offer(nodeset, own.nodes, known) or known
        if most := 0 if nodeset.is_deleting or not offer else most_nodes(nodeset):
            count = max(0, most - len(own.nodes) + own.going)
            found.append(Records(nodeset=nodeset.name, count=count, offer=offer, topology=topology))
    return found


def why_none(nodeset: NodeSet, records: Iterable[Records]) -> str:
    """Return why a NodeSet that may grow has no records of possible nodes in Slurm; empty if it has some, or needs
    none.
    """
    if nodeset.is_deleting or not most_nodes(nodeset) or any(each.nodeset == nodeset.name for each in records):
        return ""
    return (
        "Slurm refuses jobs for nodes that it does not know, and no node of this NodeSet has ever shown what it "
        "offers: set spec.growth.shape"
    )


def most_nodes(nodeset: NodeSet) -> int:
    """Return up to how many nodes the NodeSet may grow: `spec.growth.potential`, or `replicas` if that is less. 0 if it
    is not to grow.
    """
    potential, replicas = nodeset.spec.growth.potential, nodeset.spec.replicas
    return potential if replicas is None else min(potential, replicas)


def write(records: Iterable[Records]) -> str:
    """Return the records of possible nodes as the text that slurmctld's pod reads."""
    return "".join(f"{each.line}\n" for each in records)


def read_offers(text: str) -> dict[str, str]:
    """Return NodeSet → what its nodes offered, from a text that `write` made earlier."""
    lines = (line.split(" ", 2) for line in text.splitlines())
    offers = {words[1].partition(RECORD_MARK)[0]: words[2] for words in lines if len(words) == 3}
    return {nodeset: words.partition(_TOPOLOGY)[0] for nodeset, words in offers.items()}


# ------------------------------------------------------------------------------------------------------ what they offer


def _offer(nodeset: NodeSet, nodes: Iterable[SlurmNode], last: str) -> str:
    """Return what a new node of the NodeSet would offer to Slurm: what `spec.growth.shape` says, else what most of its
    nodes offer; empty without either.

    Machines of one kind differ by a few MiB. The last known offer stays while a node still has it and it is nearly the
    same as that of most nodes. So all records are not renamed each time that a node comes or goes.
    """
    own = (nodeset.name, *nodeset.spec.features)
    if (shape := nodeset.spec.growth.shape) is not None:
        return f"{_of_shape(shape)}{_features(own)}"
    offers = {node.name: _of_node(node) for node in nodes if node.cpus and node.memory_mib and not node.is_invalid}
    if not offers:
        return ""
    counts = Counter(offers.values())
    usual = max(counts, key=lambda offer: (counts[offer], offer))
    before = last.partition(_FEATURES)[0]
    if before in counts and _are_alike(before, usual):
        usual = before
    alike = {name for name, offer in offers.items() if _are_alike(offer, usual)}
    shared = frozenset.intersection(*(node.features for node in nodes if node.name in alike))
    return f"{usual}{_features((*own, *sorted(shared)))}"


def _are_alike(one: str, other: str) -> bool:
    """True if two offers are equal, except for at most 1 % of the memory."""
    least, most = sorted(int(found[1]) if (found := _MEMORY.search(each)) else 0 for each in (one, other))
    return _MEMORY.sub("", one) == _MEMORY.sub("", other) and (most - least) * 100 <= most


def _features(words: Iterable[str]) -> str:
    return f"{_FEATURES}{','.join(dict.fromkeys(words))}"


def _of_shape(shape: NodeShape) -> str:
    memory = quantity.mib_down(quantity.whole(str(shape.memory)))
    cores = f"CPUs={shape.cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={shape.cpus} ThreadsPerCore=1"
    return f"{cores} RealMemory={max(memory, 1)}" + (f" Gres={shape.gres}" if shape.gres else "")


def _of_node(node: SlurmNode) -> str:
    words = [f"CPUs={node.cpus}"]
    if node.cores:
        words += [f"Boards=1 SocketsPerBoard={node.sockets} CoresPerSocket={node.cores} ThreadsPerCore={node.threads}"]
    words += [f"CoreSpecCount={node.special_cores}"] if node.special_cores else []
    words += [f"RealMemory={node.memory_mib}"]
    words += [f"Gres={gres}"] if (gres := _SOCKETS.sub("", node.gres)) else []
    return " ".join(words)
