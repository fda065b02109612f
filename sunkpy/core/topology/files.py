"""Writes the syncer's own topology.conf (Slurm 24.11 and later) and topology.yaml (26.05), and reads such files that
others wrote.

Slurm 24.11 knows the place of a node only from the file. So our file names the nodes that Slurm knows. If Slurm deletes
a node's record, the next node to register gets the place of the deleted one, until slurmctld reads the file again. So
the last line of the file has a hash of the nodes' records: the file changes whenever a record does, and is then read
again.

Slurm 26.05 gets the place of each node with its record. Its file has the root, below which Slurm makes the switches
that a record names, and in a large cluster also nodes (`restart`). Slurm does not make blocks, so the file has them
all.

slurmctld exits on some files. So our file never has two switches of one name, a switch whose child is missing, or
(24.11) a leaf without nodes.
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
    """The error that a topology file cannot be read; the text says what is wrong in the file."""


class FileTopology(msgspec.Struct, frozen=True, kw_only=True):
    """One topology that a file describes: for each node the switches above it, widest first, or its block."""

    paths: Mapping[str, tuple[str, ...]] = {}
    blocks: Mapping[str, str] = {}


# --------------------------------------------------------------------------------------------------------------- write


def write_conf(places: Mapping[str, Place], *, records: Iterable[str]) -> str:
    """Return the text of topology.conf for Slurm 24.11, with the tree of switches above these nodes. `records`: for
    each node a text that changes when Slurm gets a new record of the node; the file has their hash.
    """
    leaves, children = _switches({node: (ROOT, *(place.switches or (UNKNOWN,))) for node, place in places.items()})
    lines = [f"SwitchName={leaf} Nodes={hostlist.compress(nodes)}" for leaf, nodes in sorted(leaves.items())]
    lines += [f"SwitchName={parent} Switches={','.join(sorted(below))}" for parent, below in sorted(children.items())]
    return with_digest(_MADE + "".join(f"{line}\n" for line in lines), records)


def with_digest(text: str, records: Iterable[str]) -> str:
    """Return the text of topology.conf with a hash of `records` (texts for Slurm's records of its nodes), so that the
    file changes whenever one of them does.
    """
    digest = hashlib.sha256("\n".join(sorted(records)).encode()).hexdigest()[:12]
    return f"{text.rstrip()}\n# records: {digest}\n"


def write_yaml(
    plugins: Sequence[str],
    blocks: Collection[str],
    block_sizes: Sequence[int],
    *,
    paths: Mapping[str, tuple[str, ...]] | None = None,
) -> str:
    """Return the text of topology.yaml for Slurm 26.05; the topology of the first plugin is the cluster's default.
    `blocks`: the names of all blocks that nodes are in.

    `paths`: for each node that the file should place, the switches above it, the root first.
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
    """Return leaf switch → its nodes, and, for each other switch, which switches are below it."""
    leaves: dict[str, list[str]] = {}
    children: dict[str, set[str]] = {}
    for node, path in paths.items():
        leaves.setdefault(path[-1], []).append(node)
        for parent, child in itertools.pairwise(path):
            children.setdefault(parent, set()).add(child)
    return leaves, children


# ---------------------------------------------------------------------------------------------------------------- read


def read(name: str, text: str) -> tuple[FileTopology, ...]:
    """Return the topologies that a topology file describes. `name`, the name of the file, says whether `text` is YAML
    or has the form of topology.conf.

    Raises:
        BadTopology: the file cannot be read.
    """
    try:
        return _read_yaml(text) if name.endswith((".yaml", ".yml")) else (_read_conf(text),)
    except (msgspec.DecodeError, hostlist.BadHostlist) as error:
        raise BadTopology(f"{name}: {error}") from error


def place_in(layouts: Sequence[FileTopology], node: str) -> Place:
    """Return the place of a node by a topology file that somebody else wrote. The switches get sunkpy's names, which
    contain their path. If the file lacks the node, the place only has a problem.
    """
    path = path_in(layouts, node)
    block = next((layout.blocks[node] for layout in layouts if node in layout.blocks), "")
    problem = "" if path or block else "not in the topology file"
    return Place(levels=path, switches=switch_names(path), block=block, problem=problem)


def path_in(layouts: Sequence[FileTopology], node: str) -> tuple[str, ...]:
    """Return the switches above a node, under the file's names, widest first; empty if the file has none for it."""
    return next((layout.paths[node] for layout in layouts if node in layout.paths), ())


def paths_in(layouts: Iterable[FileTopology]) -> dict[str, tuple[str, ...]]:
    """Return node → the switches above it, under the file's names, widest first, for all nodes for which the file has
    switches.
    """
    return {node: path for layout in layouts for node, path in layout.paths.items()}


def nodes_in(layouts: Iterable[FileTopology]) -> frozenset[str]:
    """Return the names of all nodes that the topology file names, below a switch or in a block."""
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
    """Return node → the switches above it, widest first. `nodes`: leaf → its nodes; `parents`: switch → the one above
    it. If a node is in two leaves, the first counts, as in Slurm.
    """
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
