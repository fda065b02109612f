"""topology.conf (Slurm 24.11 and later) and topology.yaml (26.05): writes the syncer's own files, and reads files of
others.

Slurm 24.11 is told of each node by the file alone. So ours names the nodes that it knows, and has in its last line a
hash of their records: a record that goes leaves its place in the switch, and the next node to register inherits that
until slurmctld reads the file again.

Slurm 26.05 is told of each node by itself. Its file has the root, from which it makes the switches that a node names,
and of a large cluster nodes as well (`restart`); blocks it does not make, so the file has them all.

A file on which slurmctld ends must not come about: no name of a switch stands twice, each child is there, no leaf of
24.11 is without nodes.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from sunkpy.core.model import hostlist
from sunkpy.core.topology.places import BLOCK, ROOT, TREE, UNKNOWN, Place, switch_names

CONF: Final = "topology.conf"
YAML: Final = "topology.yaml"
NO_BLOCK: Final = "none"
"""The name of a block without nodes, because Slurm wants at least one block."""
_MADE: Final = "# Made by sunkpy of what Nodes say.\n"
_ENTRY: Final = re.compile(r"(\w+)=(\S*)")


class BadTopology(Exception):
    """The file cannot be read; the text says what is wrong in it."""


class FileTopology(msgspec.Struct, frozen=True, kw_only=True):
    """A topology of a file: of each node its switches, widest first, or its block."""

    paths: Mapping[str, tuple[str, ...]] = {}
    blocks: Mapping[str, str] = {}


# --------------------------------------------------------------------------------------------------------------- write


def write_conf(places: Mapping[str, Place], *, records: Iterable[str]) -> str:
    """The tree of these nodes, for 24.11. `records`: what tells a node's record from its next one."""
    leaves, children = _switches({node: (ROOT, *(place.switches or (UNKNOWN,))) for node, place in places.items()})
    lines = [f"SwitchName={leaf} Nodes={hostlist.compress(nodes)}" for leaf, nodes in sorted(leaves.items())]
    lines += [f"SwitchName={parent} Switches={','.join(sorted(below))}" for parent, below in sorted(children.items())]
    return with_digest(_MADE + "".join(f"{line}\n" for line in lines), records)


def with_digest(text: str, records: Iterable[str]) -> str:
    """A topology.conf that is another one when the records of its nodes are others."""
    digest = hashlib.sha256("\n".join(sorted(records)).encode()).hexdigest()[:12]
    return f"{text.rstrip()}\n# records: {digest}\n"


def write_yaml(
    plugins: Sequence[str],
    blocks: Collection[str],
    block_sizes: Sequence[int],
    *,
    paths: Mapping[str, tuple[str, ...]] | None = None,
) -> str:
    """The topologies for 26.05, the first of them the cluster's; `blocks` are all that any node names.

    `paths`: of nodes that the file shall place, the switches above, the root first.
    """
    bodies = {
        TREE: "  tree:\n    switches:\n" + ("".join(_yaml_switches(paths)) if paths else f"      - switch: {ROOT}\n"),
        BLOCK: f"  block:\n    block_sizes: [{', '.join(map(str, block_sizes))}]\n    blocks:\n"
        + "".join(f'      - block: "{block}"\n' for block in sorted(blocks) or [NO_BLOCK]),
    }
    default = ("true", *("false" for _ in plugins[1:]))
    heads = (
        f"- topology: {plugin}\n  cluster_default: {is_default}\n"
        for plugin, is_default in zip(plugins, default, strict=True)
    )
    return _MADE + "".join(head + bodies[plugin] for head, plugin in zip(heads, plugins, strict=True))


def _yaml_switches(paths: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    leaves, children = _switches(paths)
    for parent, below in sorted(children.items()):
        yield f'      - {{switch: "{parent}", children: "{",".join(sorted(below))}"}}\n'
    for leaf, nodes in sorted(leaves.items()):
        yield f'      - {{switch: "{leaf}", nodes: "{hostlist.compress(nodes)}"}}\n'


def _switches(paths: Mapping[str, tuple[str, ...]]) -> tuple[dict[str, list[str]], dict[str, set[str]]]:
    """The nodes of each leaf, and what is below each of the others."""
    leaves: dict[str, list[str]] = {}
    children: dict[str, set[str]] = {}
    for node, path in paths.items():
        leaves.setdefault(path[-1], []).append(node)
        for parent, child in itertools.pairwise(path):
            children.setdefault(parent, set()).add(child)
    return leaves, children


# ---------------------------------------------------------------------------------------------------------------- read


def read(name: str, text: str) -> tuple[FileTopology, ...]:
    """The topologies of a file of somebody else; which of both it is, its name says.

    Raises:
        BadTopology: it cannot be read.
    """
    try:
        return _read_yaml(text) if name.endswith((".yaml", ".yml")) else (_read_conf(text),)
    except (msgspec.DecodeError, hostlist.BadHostlist) as error:
        raise BadTopology(f"{name}: {error}") from error


def place_in(layouts: Sequence[FileTopology], node: str) -> Place:
    """The place of a node in a topology file that somebody else wrote, under our names, which carry their path."""
    path = path_in(layouts, node)
    block = next((layout.blocks[node] for layout in layouts if node in layout.blocks), "")
    problem = "" if path or block else "not in the topology file"
    return Place(levels=path, switches=switch_names(path), block=block, problem=problem)


def path_in(layouts: Sequence[FileTopology], node: str) -> tuple[str, ...]:
    """The switches of a node in the names of the file, widest first; empty if it has none there."""
    return next((layout.paths[node] for layout in layouts if node in layout.paths), ())


def paths_in(layouts: Iterable[FileTopology]) -> dict[str, tuple[str, ...]]:
    """The switches of all nodes that have some, widest first, in the names of the file."""
    return {node: path for layout in layouts for node, path in layout.paths.items()}


def nodes_in(layouts: Iterable[FileTopology]) -> frozenset[str]:
    """All nodes that the file names."""
    return frozenset(node for layout in layouts for node in (*layout.paths, *layout.blocks))


def _read_conf(text: str) -> FileTopology:
    nodes: dict[str, list[str]] = {}
    parents: dict[str, str] = {}
    blocks: dict[str, str] = {}
    for line in text.replace("\\\n", " ").splitlines():
        entry = {key.lower(): value for key, value in _ENTRY.findall(line.partition("#")[0])}
        below = hostlist.expand(entry.get("nodes", ""))
        if name := entry.get("blockname"):
            blocks |= dict.fromkeys(below, name)
        elif name := entry.get("switchname"):
            nodes[name] = below
            parents |= dict.fromkeys(hostlist.expand(entry.get("switches", "")), name)
    return FileTopology(paths=_paths(nodes, parents), blocks=blocks)


def _paths(nodes: Mapping[str, Iterable[str]], parents: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """If a node is in two leaves, the first counts, as in Slurm."""
    found: dict[str, tuple[str, ...]] = {}
    for leaf, below in nodes.items():
        path = [leaf]
        while (parent := parents.get(path[0])) is not None:
            if parent in path:
                raise BadTopology(f"switch {parent} is below itself")
            path.insert(0, parent)
        for node in below:
            found.setdefault(node, tuple(path))
    return found


class _Switch(msgspec.Struct, frozen=True):
    switch: str
    children: str = ""
    nodes: str = ""


class _Tree(msgspec.Struct, frozen=True):
    switches: tuple[_Switch, ...] = ()


class _BlockEntry(msgspec.Struct, frozen=True):
    block: str
    nodes: str = ""


class _Blocks(msgspec.Struct, frozen=True):
    blocks: tuple[_BlockEntry, ...] = ()


class _Topology(msgspec.Struct, frozen=True):
    topology: str
    tree: _Tree = _Tree()
    block: _Blocks = _Blocks()


def _read_yaml(text: str) -> tuple[FileTopology, ...]:
    return tuple(_layout(each) for each in msgspec.yaml.decode(text, type=tuple[_Topology, ...], strict=False))


def _layout(topology: _Topology) -> FileTopology:
    nodes = {each.switch: hostlist.expand(each.nodes) for each in topology.tree.switches}
    parents = {child: each.switch for each in topology.tree.switches for child in hostlist.expand(each.children)}
    blocks = {node: each.block for each in topology.block.blocks for node in hostlist.expand(each.nodes)}
    return FileTopology(paths=_paths(nodes, parents), blocks=blocks)
