"""The nodes of the pool as Slurm and Kubernetes see them, with the jobs and pods on each: `kubectl sunk status`."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.identity import JOBS, PODS, noted_job, parse_comment
from sunkpy.core.gang.phases import HOLDS_NODE, pod_phase, why_stuck
from sunkpy.core.health import State, read_record
from sunkpy.core.model import hostlist
from sunkpy.core.model.gres import gres_counts
from sunkpy.core.model.growth import GrowthStatus
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.slurmd import slurm_node_of
from sunkpy.core.model.states import SlurmNode, holds_something, is_job_pending
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.overview.queue import QueuedJob, QueueEntry, waiting_table
from sunkpy.core.overview.table import Table, count, first_of

_SHOWN = 4
"""The most jobs or pods of a node that a row names."""


class Standing(enum.StrEnum):
    """The state of a node in the overview: the first of down, drained, busy and ready that applies."""

    DOWN = "down"  # the node has no slurmd that Slurm can use
    DRAINED = "drained"  # no new job starts on the node; one may still run
    BUSY = "busy"
    READY = "ready"


class PoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All that was read about the pool. A field is None if it could not be read; `unread` says why.

    Args:
        nodesets: the NodeSets that the person asks about.
        slurmd_pods: the slurmd pods of these NodeSets.
        pods: the workload pods that could be read. `are_pods_read`: False if that was not possible.
        slurm_nodes, jobs: as Slurm has them; without them, the annotations of slurmd pods are used.
        tiers: partition → its PriorityTier.
        partitions: partition → its nodes, in Slurm's range syntax.
    """

    nodesets: tuple[NodeSet, ...] | None = None
    nodes: tuple[Node, ...] | None = None
    slurmd_pods: tuple[Pod, ...] | None = None
    pods: tuple[Pod, ...] = ()
    are_pods_read: bool = True
    slurm_nodes: Mapping[str, SlurmNode] | None = None
    jobs: tuple[QueuedJob, ...] | None = None
    tiers: Mapping[str, int] = {}
    partitions: Mapping[str, str] = {}
    unread: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The sides (Kubernetes, Slurm) from which nothing at all could be read."""
        of_kubernetes = (self.nodesets, self.nodes, self.slurmd_pods)
        is_there = self.are_pods_read or any(each is not None for each in of_kubernetes)
        return (*(() if is_there else (PODS,)), *(() if self.jobs is not None else (JOBS,)))


class NodeLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A node of a NodeSet, with the jobs of people and the workload pods on it.

    `gpus`, `gpus_given`: how many GPUs it has, and how many of them jobs have; None if not known.
    """

    node: str
    slurm_node: str
    nodeset: str = ""
    kubernetes: str = ""
    slurm: str
    standing: Standing = Standing.DOWN
    gpus: int | None = None
    gpus_given: int | None = None
    jobs: tuple[int, ...] = ()
    pods: tuple[str, ...] = ()


class StuckPod(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod that has a node but cannot be started by the kubelet. `gpus`: how many its job has; 0 if not known."""

    pod: str
    node: str
    gpus: int = 0
    why: str


class PoolView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The overview of the pool: its nodes, the jobs and pods that wait, and the pods that cannot start (`stuck`).

    `growth`: NodeSet → how many more nodes it wants. `unread`: what could not be read, and why. `missing`: the sides
    (Kubernetes, Slurm) from which nothing could be read.
    """

    nodes: tuple[NodeLine, ...]
    waiting: tuple[QueueEntry, ...]
    nodesets: tuple[str, ...]
    at: str
    growth: Mapping[str, GrowthStatus] = {}
    stuck: tuple[StuckPod, ...] = ()
    unread: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def find_nodes(facts: PoolFacts) -> tuple[NodeLine, ...]:
    """Return a line for each slurmd pod that has a node, sorted by NodeSet and name."""
    nodes = {node.name: node for node in facts.nodes or ()}
    nodesets = {nodeset.key: nodeset for nodeset in facts.nodesets or ()}
    given, jobs = _given(facts.jobs), _jobs(facts.jobs)
    pods: defaultdict[str, list[str]] = defaultdict(list)
    for pod in facts.pods:
        if pod.spec.node_name and pod_phase(pod) in HOLDS_NODE:
            pods[pod.spec.node_name].append("/".join(pod.key))
    lines = []
    for slurmd in (each for each in facts.slurmd_pods or () if each.spec.node_name):
        name, key = slurm_node_of(slurmd), _nodeset(slurmd)
        slurm, node = state_of(slurmd, facts), nodes.get(slurmd.spec.node_name)
        line = NodeLine(
            node=slurmd.spec.node_name,
            slurm_node=name,
            nodeset="/".join(key),
            kubernetes=_kubernetes(node) if facts.nodes is not None else "not read",
            slurm=slurm.state_text or "unknown to Slurm",
            standing=standing_of(slurm),
            gpus=_gpus(slurm, node, nodesets.get(key), is_asked=facts.slurm_nodes is not None),
            gpus_given=given.get(name, 0) if facts.jobs is not None else None,
            jobs=tuple(sorted(jobs[name])),
            pods=tuple(sorted(pods[slurmd.spec.node_name])),
        )
        lines.append(line)
    return tuple(sorted(lines, key=lambda line: (line.nodeset, line.slurm_node)))


def find_growth(facts: PoolFacts) -> dict[str, GrowthStatus]:
    """Return NodeSet → its `status.growth`, for each NodeSet that wants more nodes or says why it wants none."""
    return {
        "/".join(each.key): growth
        for each in facts.nodesets or ()
        if (growth := each.status.growth) is not None and growth.says_something
    }


def find_stuck(facts: PoolFacts) -> tuple[StuckPod, ...]:
    """Return the pods that have a node and that the kubelet cannot start."""
    gpus = {job.row.id: sum(len(each.get("gpu", ())) for each in job.row.devices.values()) for job in facts.jobs or ()}
    return tuple(
        StuckPod(pod="/".join(pod.key), node=pod.spec.node_name, gpus=gpus.get(noted_job(pod) or 0, 0), why=why)
        for pod in facts.pods
        if (why := why_stuck(pod))
    )


def standing_of(node: SlurmNode) -> Standing:
    """Return the state of a Slurm node for the overview."""
    if not node.is_registered:
        return Standing.DOWN
    return Standing.DRAINED if node.is_closed else Standing.BUSY if node.is_busy else Standing.READY


def _nodeset(slurmd: Pod) -> tuple[str, str]:
    return slurmd.metadata.namespace, slurmd.labels.get(names.LABEL_NODESET, "")


def state_of(slurmd: Pod, facts: PoolFacts) -> SlurmNode:
    """Return what Slurm says of a slurmd pod's node, or, if Slurm was not asked, what the syncer wrote on the pod.

    The returned node has an empty state if Slurm has no such node.
    """
    name = slurm_node_of(slurmd)
    if facts.slurm_nodes is not None:
        return facts.slurm_nodes.get(name, SlurmNode(name=name))
    state = slurmd.annotations.get(names.ANNOTATION_SLURM_STATE, "")
    drain = slurmd.annotations.get(names.ANNOTATION_DRAIN, "")
    return SlurmNode(name=name, state=frozenset(filter(None, state.split("+"))), reason=drain)


def _kubernetes(node: Node | None) -> str:
    if node is None:
        return "gone"
    closed = ("cordoned",) if node.spec.unschedulable else ()
    record = read_record(node)
    health = (f"health: {record.state}",) if record is not None and record.state is not State.WELL else ()
    return ", ".join(("Ready" if node.is_ready else "NotReady", *closed, *health))


def _gpus(slurm: SlurmNode, node: Node | None, nodeset: NodeSet | None, *, is_asked: bool) -> int | None:
    if is_asked:
        return gres_counts(slurm.gres).get("gpu", 0)
    if nodeset is None or node is None:
        return None
    return nodeset.spec.gpu.count_on(node) if nodeset.spec.gpu is not None else 0


def _given(jobs: Sequence[QueuedJob] | None) -> Counter[str]:
    """Return Slurm node → how many of its GPUs jobs have: jobs of people and of pods together."""
    given: Counter[str] = Counter()
    for job in jobs or ():
        if holds_something(job.row.state):
            given.update({node: len(indices.get("gpu", ())) for node, indices in job.row.devices.items()})
    return given


def _jobs(jobs: Sequence[QueuedJob] | None) -> defaultdict[str, list[int]]:
    """Return Slurm node → the jobs of people on it; jobs of pods are shown as pods."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for job in jobs or ():
        is_there = holds_something(job.row.state) and not is_job_pending(job.row.state)
        for node in job.row.nodes if is_there and parse_comment(job.row.comment) is None else ():
            found[node].append(job.row.id)
    return found


# ------------------------------------------------------------------------------------------------------------- as text


def explain_missing(missing: Sequence[str]) -> str:
    """Return a sentence that names the sides (Kubernetes, Slurm) from which nothing could be read; empty if none."""
    if len(missing) > 1:
        return f"Nothing could be read, neither from {missing[0]} nor from {missing[1]}."
    return f"Nothing could be read from {missing[0]}." if missing else ""


def headline(pool: PoolView) -> str:
    """Return the pool in a sentence, and from which sides (Kubernetes, Slurm) nothing could be read."""
    if len(pool.missing) > 1:
        return explain_missing(pool.missing)
    standings = Counter(line.standing for line in pool.nodes)
    parts = [f"{standings[each]} {each}" for each in reversed(Standing) if standings[each]]
    gpus, given = _sum(line.gpus for line in pool.nodes), _sum(line.gpus_given for line in pool.nodes)
    free = f", {gpus - given} free" if gpus is not None and given is not None else ""
    of_gpus = f"; {count(gpus, 'GPU')}{free}" if gpus else ""
    doors = Counter(each.door for each in pool.waiting)
    waits = " and ".join(f"{doors[door]} at {door}" for door in (JOBS, PODS) if doors[door])
    listed = f" ({', '.join(parts)})" if parts else ""
    wanted = sum(each.wanted_nodes for each in pool.growth.values())
    more = f"; {count(wanted, 'node')} more wanted" if wanted else ""
    return f"{count(len(pool.nodes), 'node')}{listed}{of_gpus}{more}; waiting: {waits or 'nothing'}. {pool.at}" + (
        f" {explain_missing(pool.missing)}" if pool.missing else ""
    )


def pool_tables(pool: PoolView, *, is_wide: bool = False) -> Iterator[Table]:
    """Yield the tables of the overview: NodeSets, growth, nodes, the queue, and pods that cannot start.

    Nodes of a NodeSet in the same state share a row unless `is_wide`.
    """
    yield _nodeset_table(pool)
    if pool.growth:
        yield _growth_table(pool.growth)
    yield _node_table(pool.nodes) if is_wide else _group_table(pool.nodes)
    yield waiting_table(pool.waiting)
    if pool.stuck:
        rows = tuple((each.pod, each.node, str(each.gpus or ""), each.why) for each in pool.stuck)
        yield Table(titles=("CANNOT START", "KEEPS NODE", "GPUS OF ITS JOB", "BECAUSE"), rows=rows)


def _nodeset_table(pool: PoolView) -> Table:
    rows = []
    for name in sorted({*pool.nodesets, *(line.nodeset for line in pool.nodes)}):
        lines = [line for line in pool.nodes if line.nodeset == name]
        standings = Counter(line.standing for line in lines)
        counts = (str(standings[each]) for each in (Standing.READY, Standing.BUSY, Standing.DRAINED, Standing.DOWN))
        rows.append((name, str(len(lines)), *counts, *_gpu_texts(lines)))
    titles = ("NODESET", "NODES", "READY", "BUSY", "DRAINED", "DOWN", "GPUS", "IN USE", "FREE")
    return Table(titles=titles, rows=tuple(rows))


def _growth_table(growth: Mapping[str, GrowthStatus]) -> Table:
    rows = tuple(
        (
            nodeset,
            str(each.wanted_nodes),
            each.since,
            first_of((request.job for request in each.requests), _SHOWN),
            each.reason,
        )
        for nodeset, each in sorted(growth.items())
    )
    return Table(titles=("NODESET", "MORE WANTED", "SINCE", "FOR JOBS", "NOT HELPED"), rows=rows)


def _group_table(nodes: Iterable[NodeLine]) -> Table:
    groups: defaultdict[tuple[str, str, str], list[NodeLine]] = defaultdict(list)
    for line in nodes:
        groups[line.nodeset, line.kubernetes, line.slurm].append(line)
    rows = tuple(
        (
            kubernetes,
            slurm,
            str(len(lines)),
            *_gpu_texts(lines),
            str(len({job for line in lines for job in line.jobs})),
            str(sum(len(line.pods) for line in lines)),
            hostlist.describe(line.slurm_node for line in lines),
        )
        for (_, kubernetes, slurm), lines in groups.items()
    )
    titles = ("KUBERNETES", "SLURM", "NODES", "GPUS", "IN USE", "FREE", "JOBS", "PODS", "SLURM NODES")
    return Table(titles=titles, rows=rows)


def _node_table(nodes: Iterable[NodeLine]) -> Table:
    rows = tuple(
        (
            line.node,
            line.slurm_node,
            line.nodeset,
            line.kubernetes,
            line.slurm,
            *_gpu_texts([line]),
            first_of(map(str, line.jobs), _SHOWN),
            first_of(line.pods, _SHOWN),
        )
        for line in nodes
    )
    titles = ("NODE", "SLURM NODE", "NODESET", "KUBERNETES", "SLURM", "GPUS", "IN USE", "FREE", "JOBS", "PODS")
    return Table(titles=titles, rows=rows)


def _gpu_texts(lines: Sequence[NodeLine]) -> tuple[str, str, str]:
    gpus, given = _sum(line.gpus for line in lines), _sum(line.gpus_given for line in lines)
    free = gpus - given if gpus is not None and given is not None else None
    return tuple("?" if number is None else str(number) for number in (gpus, given, free))  # type: ignore[return-value]


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    return None if None in known else sum(number or 0 for number in known)
