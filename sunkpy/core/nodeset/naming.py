"""Names of slurmd pods, which are the names of Slurm nodes.

`gpu-012-002` is the node whose InternalIP ends in `.12.2`: padded octets make Slurm's ranges (`gpu-012-[001-064]`) and
tell a person which machine it is. Where two nodes would get the same name, the later one takes more octets. A name once
given stays with its node: the pod carries it, and when the pod is gone, the Node's annotation remembers it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable

from sunkpy.core import names
from sunkpy.core.model.objects import Node
from sunkpy.core.nodeset.spec import NodeSet

_MAX_LENGTH = 63  # a host name is a DNS label
_IPV4 = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")


def assign_names(
    nodeset: NodeSet, nodes: Iterable[Node], *, taken: Container[str], reserved: Container[str] = ()
) -> dict[str, str]:
    """Return the Slurm node name of each Kubernetes node, by node name. No two nodes get the same name.

    Args:
        nodeset: gives prefix and style.
        nodes: the nodes that need a name.
        taken: names in use: of pods of this NodeSet, and of other NodeSets' pods in the Slurm cluster or the namespace.
        reserved: names that nodes without a pod once had. Such a node gets its own name again, and no other node gets
            it.
    """
    assigned: dict[str, str] = {}
    used: set[str] = set()
    unknown = []
    for node in sorted(nodes, key=_by_age):
        name = remembered_name(nodeset, node)
        if name is None or name in used or name in taken:
            unknown.append(node)
        else:
            assigned[node.name] = name
            used.add(name)
    for node in unknown:
        free = (name for name in _candidates(nodeset, node) if name not in used and name not in taken)
        name = next(name for name in free if name not in reserved)
        assigned[node.name] = name
        used.add(name)
    return assigned


def remembered_name(nodeset: NodeSet, node: Node) -> str | None:
    """Return the Slurm node name that the Node's annotation remembers from an earlier slurmd pod. None if there is
    none, or if the NodeSet's prefix has changed since.
    """
    name = node.annotations.get(names.ANNOTATION_PLACED_ON, "")
    return name if name.startswith(f"{nodeset.prefix}-") else None


def _by_age(node: Node) -> tuple[str, str]:
    return (node.metadata.creation_timestamp, node.name)


def _candidates(nodeset: NodeSet, node: Node) -> Iterable[str]:
    """Yield possible Slurm node names for the node, the best first. The last two end in a hash of the node's name or
    uid, so that hardly any two nodes get the same name.
    """
    if nodeset.spec.naming == "InternalIP" and _IPV4.fullmatch(node.internal_ip):
        octets = [octet.zfill(3) for octet in node.internal_ip.split(".")]
        for count in (2, 3, 4):
            yield host_name(nodeset.prefix, "-".join(octets[-count:]))
    yield host_name(nodeset.prefix, node.name)
    yield host_name(nodeset.prefix, f"{node.name}-{_digest(node.name)}")
    yield host_name(nodeset.prefix, f"{node.name}-{_digest(node.uid or node.name + '.')}")


def host_name(prefix: str, part: str) -> str:
    """Return `<prefix>-<part>` as a DNS label. A long name is cut and ends in a digest."""
    name = re.sub(r"[^a-z0-9-]+", "-", f"{prefix}-{part}".lower()).strip("-")
    if len(name) <= _MAX_LENGTH:
        return name
    return f"{name[: _MAX_LENGTH - 9].rstrip('-')}-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
