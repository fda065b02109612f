"""How the tasks of a job lie on its nodes: per node, in the job's own order, how many.

The order is Slurm's (that of the topology, or of registration), and neighbours in it are neighbours in the network: it
is never sorted. Slurm does not tell the tasks per node of a job without steps; they follow from what it allocated.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

Layout = tuple[tuple[str, int], ...]
"""(Slurm node, tasks there) in the job's node order."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What a job, or one task of it, has: of a node, of all its GRES together."""

    node: str = ""
    cpus: int = 0
    gres: int = 0


def lay_out(shares: Sequence[Share], *, tasks: int, task: Share) -> Layout:
    """As many tasks on each node as fit into the job's share of it, in order, at least one on each and `tasks` in all.

    A job that has whole nodes, or whole cores of several threads, has more than its tasks need: then the first nodes
    are filled first.
    """
    left, layout = tasks, []
    for number, share in enumerate(shares):
        nodes_after = len(shares) - number - 1
        here = max(1, min(_fitting(share, task), left - nodes_after))
        layout.append((share.node, here))
        left -= here
    return tuple(layout)


def spread(nodes: Sequence[str], tasks: int) -> Layout:
    """The same number on each node, one more on the first ones: when no more than the nodes is known."""
    each, more = divmod(tasks, len(nodes)) if nodes else (0, 0)
    return tuple((node, max(1, each + (number < more))) for number, node in enumerate(nodes))


def _fitting(share: Share, task: Share) -> int:
    by_cpus = share.cpus // task.cpus if task.cpus else share.cpus
    return min(by_cpus, share.gres // task.gres) if task.gres else by_cpus
