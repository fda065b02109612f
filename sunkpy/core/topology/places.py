"""Computes the place of one node in the network from labels and annotations of its Node alone.

The name of a switch contains its whole path, and ends in a slash if other switches are below it: `sp1/` and
`sp1/leaf4`. So a switch that is found below another parent gets another name, because Slurm 26.05 cannot move a switch.
And a leaf never has the name of a switch that has switches below it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from sunkpy.core.topology.sources import Source

ROOT: Final = "all"
UNKNOWN: Final = "unknown"
"""The leaf of nodes without labels, below the root. A node outside of the tree would get no job of several nodes."""
TREE: Final = "tree"
BLOCK: Final = "block"
"""The names of our topologies in topology.yaml (`TREE`, `BLOCK`), and their plugins."""
FILE_LACKS_IT: Final = "Slurm's file lacks it"
"""The reason why Slurm does not have a node's place although sunkpy knows it: the topology file that Slurm has read
lacks a switch or block. The next file has it.
"""
_LONGEST: Final = 63
"""slurmctld 24.11 exits on a name of more than 64 characters (switch_record.c); a slash may follow this one."""
_HASH: Final = 12
_SPEC: Final = re.compile(r"[^\s,:\[\]]+(:[^\s,:\[\]]+)+(,[^\s,:\[\]]+(:[^\s,:\[\]]+)+)*")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a node: the names of the switches above it, widest first, without the root, and the name of its
    block.

    `levels`: the same switches under the names that the labels or the file give them; empty if these names are not
    known. `spec`: the place as Slinky's annotation says it, instead of switches and block. `problem`: why there is no
    place, or no block.
    """

    levels: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    block: str = ""
    spec: str = ""
    problem: str = ""

    @property
    def leaf(self) -> str:
        """The name of the switch to which the node is connected; empty if it is not known."""
        return self.switches[-1] if self.switches else ""

    @property
    def path(self) -> str:
        """The place as people read it: `sp1/leaf4`. Long names of switches are not shortened here."""
        return "/".join(self.levels) or self.leaf or self.spec or self.block


def place_of(labels: Mapping[str, str], sources: Sequence[Source], *, wants_block: bool = False) -> Place:
    """Return the place of the Node with these labels, by the first of these sources (sets of label keys) whose labels
    the Node has. `wants_block`: a missing block is a problem.

    If no source fits, the place says what is missing for the source of which the Node has the most labels.
    """
    found = [(_switches(labels, source), source) for source in sources]
    for (values, problem), source in found:
        if not problem:
            block = next((labels[key] for key in source.blocks if labels.get(key)), "")
            lacks = f"no label {_either(source.blocks)} that names its block" if wants_block and not block else ""
            return Place(levels=values, switches=switch_names(values), block=_short([block]), problem=lacks)
    seen = [(len(source.keys & labels.keys()), problem) for (_, problem), source in found]
    most, problem = max(seen, key=lambda each: each[0], default=(0, "no source of labels is configured"))
    if not most and len(sources) > 1:
        problem = "no label of a known source"
    return Place(problem=problem)


def place_of_slinky(spec: str) -> Place:
    """Return the place that Slinky's annotation names: `topo-switch:s2,topo-block:b2`. If the text has another form or
    is empty, the place only has a problem.
    """
    if not spec:
        return Place(problem="no annotation topology.slinky.slurm.net/spec")
    if not _SPEC.fullmatch(spec):
        return Place(problem=f"annotation topology.slinky.slurm.net/spec is not NAME:unit,NAME:unit: {spec[:80]!r}")
    return Place(spec=spec)


def topology_str_of(place: Place, plugins: Sequence[str], record: str = "") -> str:
    """Return the place of one node as Slurm 26.05 takes it: `tree:all:sp1/:sp1/leaf4,block:b7`. `plugins`: the
    topologies that Slurm has. `record`: the place that Slurm has until now.

    What is not known stays as in `record`, because a label may be gone for a moment. A node that never had a switch is
    in the leaf `unknown` below the root, and a node that never had a block is in no block.
    """
    if place.spec or not plugins:
        return place.spec
    known = units_of(record)
    switches = ":".join((ROOT, *place.switches)) if place.switches else known.get(TREE, f"{ROOT}:{UNKNOWN}")
    units = {TREE: switches, BLOCK: place.block or known.get(BLOCK, "")}
    return ",".join(f"{plugin}:{units[plugin]}" for plugin in plugins if units[plugin])


def units_of(spec: str) -> dict[str, str]:
    """Return topology → the node's place in it, as Slurm's record or an annotation says: `{"tree":
    "all:sp1/:sp1/leaf4"}`.
    """
    pairs = (part.partition(":") for part in spec.split(",") if part)
    return {name: unit for name, _, unit in pairs}


def is_ours(record: str) -> bool:
    """True if Slurm's record of a node's place names topologies of sunkpy (`tree`, `block`), and no others."""
    return bool(record) and units_of(record).keys() <= {TREE, BLOCK}


def tell(place: Place, spec: str) -> str:
    """Return the node's place as text for people, which the syncer writes on the slurmd pod: `sp1/leaf4`. If the place
    has a problem, the text gives the last known place, also from Slurm's record (`spec`), and the problem in brackets.
    """
    if not place.problem:
        return place.path
    last = place.path or units_of(spec).get(TREE, "").rpartition(":")[2]
    return f"{last} ({place.problem})".lstrip()


def path_told(text: str) -> tuple[str, ...]:
    """Return the names of the levels in a text that `tell` made, widest first; empty if it names no place."""
    path = text.partition(" (")[0] if not text.startswith("(") else ""
    return tuple(path.split("/")) if path and path != UNKNOWN else ()


def problem_told(text: str) -> str:
    """Return the problem with the Node's labels in a text that `tell` made; empty if it names none."""
    problem = text.partition("(")[2].rpartition(")")[0]
    return problem if problem != FILE_LACKS_IT else ""


def switch_names(values: Sequence[str]) -> tuple[str, ...]:
    """Return Slurm's names for the switches with these label values, widest first. All but the last have switches below
    them, and end in a slash.
    """
    names = [_short(values[: at + 1]) for at in range(len(values))]
    ours = "-" if len(names) == 1 and names[0] in (ROOT, UNKNOWN) else ""
    return (*(f"{name}/" for name in names[:-1]), *(f"{name}{ours}" for name in names[-1:]))


def _switches(labels: Mapping[str, str], source: Source) -> tuple[tuple[str, ...], str]:
    """Return the Node's label values for the levels of a source, widest first, and an empty text; or no values, and a
    text that says which labels are missing.
    """
    keys = source.levels
    first = next((at for at, key in enumerate(keys) if labels.get(key)), len(keys))
    must = min(first, len(keys) - source.least)
    missing = [key for key in keys[must:] if not labels.get(key)]
    if missing:
        return (), f"no label {' and no label '.join(missing)}"
    values = tuple(labels[key] for key in keys[must:])
    if source.longer:
        # Machines without the further level are below the leaf `-`: a switch has either nodes or switches below it.
        values += (labels.get(source.longer) or "-",)
    return values, ""


def _either(keys: Sequence[str]) -> str:
    return " or ".join(keys) or "is configured"


def _short(values: Sequence[str]) -> str:
    """Return the name of a switch with this path, in at most 63 characters. In a longer name a hash replaces the part
    above the last value, so leaves of one switch keep the same beginning. If the last value alone is too long, it is
    shortened, too.
    """
    name = "/".join(values)
    if len(name) <= _LONGEST:
        return name
    *above, own = values
    own = own if len(own) <= _LONGEST - _HASH - 1 else f"{_hash(own)}-{own[-_LONGEST // 2 :]}"
    return f"{_hash('/'.join(above))}/{own}" if above else own


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH]
