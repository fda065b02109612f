"""How many tasks a job has on each of its nodes, in the job's own node order.

The order is Slurm's. Nodes that come and go are in the order in which they first registered, whatever the topology
plugin knows of switches (slurmctld, read_config.c, sorts only nodes of slurm.conf). So nodes of one switch are
neighbours only after `grouped`. Slurm does not report the tasks per node of a job without steps; they follow from what
it allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

Layout = tuple[tuple[str, int], ...]
"""How many tasks a job has on each node: (Slurm node, tasks), in the job's node order."""


class JobShare(msgspec.Struct, frozen=True, kw_only=True):
    """The cpus and GRES that a job, or one of its tasks, has on a node. `gres` counts GRES of all kinds together."""

    node: str = ""
    cpus: int = 0
    gres: int = 0


def lay_out(shares: Sequence[JobShare], *, tasks: int, task: JobShare) -> Layout:
    """Return how many tasks of a job each node gets: at least one, and at most as many as fit into the job's share of
    the node. `tasks`: how many there are in all; `task`: what one of them needs.

    A job with whole nodes, or whole cores of several threads, has more than its tasks need. Its tasks then spread as
    evenly as they fit, first nodes first, because the job's memory was requested for that.
    """
    counts, most = [1] * len(shares), [_fitting(share, task) for share in shares]
    left = tasks - len(shares)
    while left > 0 and (open_nodes := [at for at, count in enumerate(counts) if count < most[at]]):
        for at in open_nodes[:left]:
            counts[at] += 1
        left -= len(open_nodes[:left])
    return tuple((share.node, count) for share, count in zip(shares, counts, strict=True))


def spread(nodes: Sequence[str], tasks: int) -> Layout:
    """Return a layout with the same number of tasks on each node, and one more on the first nodes. It is used if
    nothing but the nodes is known.
    """
    each, more = divmod(tasks, len(nodes)) if nodes else (0, 0)
    return tuple((node, max(1, each + (number < more))) for number, node in enumerate(nodes))


def grouped(nodes: Iterable[str], path_of: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
    """Return the nodes with those of one group side by side, at each level of their topology. Groups keep the order of
    their first nodes.

    `path_of` gives a node's groups, the widest first; a node without a path stands alone.
    """
    nodes = tuple(nodes)
    paths = {node: tuple(path_of(node)) or (node,) for node in nodes}
    first: dict[tuple[str, ...], int] = {}
    for at, path in enumerate(paths.values()):
        for depth in range(1, len(path) + 1):
            first.setdefault(path[:depth], at)
    return tuple(sorted(nodes, key=lambda node: [first[paths[node][: depth + 1]] for depth in range(len(paths[node]))]))


def _fitting(share: JobShare, task: JobShare) -> int:
    by_cpus = share.cpus // task.cpus if task.cpus else share.cpus
    return min(by_cpus, share.gres // task.gres) if task.gres else by_cpus
