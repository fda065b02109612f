"""How the tasks of a job lie on its nodes: per node, in the job's own order, how many.

The order is Slurm's. Nodes that come and go are in the order in which they first registered, whatever the topology
plugin knows of switches (slurmctld, read_config.c: only nodes of slurm.conf are sorted). So those of one switch are
neighbours only where somebody else says which they are (`grouped`). Slurm does not tell the tasks per node of a job
without steps; they follow from what it allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

Layout = tuple[tuple[str, int], ...]
"""(Slurm node, tasks there) in the job's node order."""


class JobShare(msgspec.Struct, frozen=True, kw_only=True):
    """What a job, or one of its tasks, has on a node. `gres`: how many GRES of all kinds together."""

    node: str = ""
    cpus: int = 0
    gres: int = 0


def lay_out(shares: Sequence[JobShare], *, tasks: int, task: JobShare) -> Layout:
    """Put as many tasks on each node as fit into the job's share of that node: at least one on each, and `tasks` in
    all.

    A job that has whole nodes, or whole cores of several threads, has more than its tasks need: then they lie as evenly
    as they fit, the first nodes first, for its memory was asked so.
    """
    counts, most = [1] * len(shares), [_fitting(share, task) for share in shares]
    left = tasks - len(shares)
    while left > 0 and (open_nodes := [at for at, count in enumerate(counts) if count < most[at]]):
        for at in open_nodes[:left]:
            counts[at] += 1
        left -= len(open_nodes[:left])
    return tuple((share.node, count) for share, count in zip(shares, counts, strict=True))


def spread(nodes: Sequence[str], tasks: int) -> Layout:
    """The same number of tasks on each node, and one more on the first nodes. It is used if nothing but the nodes is
    known.
    """
    each, more = divmod(tasks, len(nodes)) if nodes else (0, 0)
    return tuple((node, max(1, each + (number < more))) for number, node in enumerate(nodes))


def grouped(nodes: Iterable[str], path_of: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
    """The nodes in groups at each level of their paths, in the order of the first node of each group.

    A path begins with the widest group; a node without one stands alone.
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
