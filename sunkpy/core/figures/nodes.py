"""Metrics of Slurm nodes: how many are in each state, what each node has, and the sums for each partition.

A node counts in one of the states future, down, mixed, alloc, idle and unknown, and also under each flag that it has.
`drain` and `drained` count drained nodes without jobs, `draining` counts drained nodes on which a job still runs.
Memory is in MiB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from sunkpy.core.figures.family import MetricFamily, Sample, single
from sunkpy.core.model.gres import gres_counts
from sunkpy.core.model.states import SlurmNode

States = frozenset[str]

_BASE: Final = {
    "future": "FUTURE",
    "down": "DOWN",
    "mixed": "MIXED",
    "alloc": "ALLOCATED",
    "idle": "IDLE",
    "unknown": "UNKNOWN",
}
"""Metric's name → base state of a node. A node counts only for the first of them that it has."""
_FLAGS: Final = {
    "blocked": "BLOCKED",
    "completing": "COMPLETING",
    "cloud": "CLOUD",
    "dyn_future": "DYNAMIC_FUTURE",
    "dyn_normal": "DYNAMIC_NORM",
    "external": "EXTERNAL",
    "fail": "FAIL",
    "invalid_reg": "INVALID_REG",
    "maint": "MAINTENANCE",
    "noresp": "NOT_RESPONDING",
    "planned": "PLANNED",
    "power_down": "POWER_DOWN",
    "power_up": "POWER_UP",
    "powered_down": "POWERED_DOWN",
    "powering_up": "POWERING_UP",
    "reboot_issued": "REBOOT_ISSUED",
    "reboot_req": "REBOOT_REQUESTED",
    "resv": "RESERVED",
}
_ALIASES: Final[Mapping[str, Callable[[States], bool]]] = {
    "comp": lambda state: "COMPLETING" in state,
    "err": lambda state: "ERROR" in state,
    "mix": lambda state: "MIXED" in state,
    "not_responding": lambda state: "NOT_RESPONDING" in state,
    "total": lambda state: True,
}
"""Names that the metrics of SUNK's syncer have, and that slurmctld's metrics lack."""

_OF_PARTITION: Final = {"completing": "cg", "noresp": "no_resp", "reboot_req": "reboot_requested"}
"""Name for all nodes → name for the nodes of a partition, for figures that slurmctld names differently there."""


class PartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A Slurm partition. `nodes`: its nodes, and records of nodes that do not exist yet (`potential` of NodeSets).
    `tier`: its PriorityTier.
    """

    name: str
    nodes: tuple[str, ...] = ()
    tier: int = 0


def is_draining(state: States) -> bool:
    """True if a node with these state flags has a drain, but a job is still on it."""
    return "DRAIN" in state and bool(state & {"COMPLETING", "ALLOCATED", "MIXED"})


def is_drained(state: States) -> bool:
    """True if a node with these state flags has a drain, and no job is on it."""
    return "DRAIN" in state and not is_draining(state)


_STATES: Final[Mapping[str, Callable[[States], bool]]] = {
    **{
        name: (lambda state, own=name: own == next((base for base, flag in _BASE.items() if flag in state), ""))  # type: ignore[misc]
        for name in _BASE
    },
    **{name: (lambda state, flag=flag: flag in state) for name, flag in _FLAGS.items()},  # type: ignore[misc]
    "drain": is_drained,
    "drained": is_drained,
    "draining": is_draining,
}


def count_states(nodes: Iterable[SlurmNode]) -> dict[str, int]:
    """Return the end of a metric's name (`idle`, `draining` and so on) → how many nodes are in this state. Thousands of
    nodes have few different states, so each state is tested once.
    """
    states = Counter(node.state for node in nodes)
    return {name: sum(n for state, n in states.items() if test(state)) for name, test in _STATES.items()}


def state_families(nodes: Iterable[SlurmNode]) -> Iterator[MetricFamily]:
    """Yield metrics `slurm_nodes` and `slurm_nodes_*`, some of them a second time under the names that SUNK's syncer
    uses.
    """
    states = Counter(node.state for node in nodes)
    yield single("slurm_nodes", "Number of Slurm nodes", states.total())
    for name, test in (*_STATES.items(), *_ALIASES.items()):
        count = sum(n for state, n in states.items() if test(state))
        yield single(f"slurm_nodes_{name}", f"Number of Slurm nodes: {name.replace('_', ' ')}", count)


def _gpus(node: SlurmNode) -> int:
    return gres_counts(node.gres).get("gpu", 0)


_OF_NODE: Final[Mapping[str, tuple[str, Callable[[SlurmNode], int]]]] = {
    "cpus": ("CPUs of the Slurm node", lambda node: node.cpus),
    "cpus_alloc": ("CPUs of the Slurm node that jobs have", lambda node: node.alloc_cpus),
    "cpus_effective": ("CPUs of the Slurm node that jobs may have", lambda node: node.effective_cpus),
    "cpus_idle": (
        "CPUs of the Slurm node that jobs may have and that no job has",
        lambda node: node.effective_cpus - node.alloc_cpus,
    ),
    "gpus": ("GPUs of the Slurm node", _gpus),
    "memory_bytes": ("Memory of the Slurm node in MiB, as slurmctld gives it", lambda node: node.memory_mib),
    "memory_alloc_bytes": ("Memory of the Slurm node that jobs have, in MiB", lambda node: node.alloc_memory_mib),
    "memory_effective_bytes": (
        "Memory of the Slurm node that jobs may have, in MiB",
        lambda node: node.effective_memory_mib,
    ),
}


def node_families(nodes: Mapping[str, SlurmNode], gpus_alloc: Mapping[str, int]) -> Iterator[MetricFamily]:
    """Yield metrics `slurm_node_*` and `sunkpy_node_state`. `gpus_alloc`: node → how many of its GPUs jobs have."""
    for end, (text, of) in _OF_NODE.items():
        samples = [Sample((node.name,), of(node)) for node in nodes.values()]
        yield MetricFamily(name=f"slurm_node_{end}", help=text, labels=("node",), samples=samples)
    samples = [Sample((name,), gpus_alloc.get(name, 0)) for name in nodes]
    yield MetricFamily(
        name="slurm_node_gpus_alloc", help="GPUs of the Slurm node that jobs have", labels=("node",), samples=samples
    )
    yield MetricFamily(
        name="sunkpy_node_state",
        help="1 for the `state` that a Slurm node has. If the node takes no new jobs, `reason` is Slurm's reason "
        "for that",
        labels=("node", "state", "reason"),
        samples=[Sample((node.name, _text(node.state), node.reason), 1) for node in nodes.values()],
    )


def _text(state: States) -> str:
    """Return the state as Slurm writes it, such as `IDLE+DRAIN`, without DYNAMIC_NORM, which all nodes have."""
    base = [flag for flag in _BASE.values() if flag in state][:1]
    return "+".join([*base, *sorted(state - set(base) - {"DYNAMIC_NORM"})])


def partition_families(partitions: Iterable[PartitionRow], nodes: Mapping[str, SlurmNode]) -> Iterator[MetricFamily]:
    """Yield metrics `slurm_partitions` and `slurm_partition_*`, except `slurm_partition_jobs_*`."""
    figures = {each.name: _of_partition(each, nodes) for each in partitions}
    yield single("slurm_partitions", "Number of partitions", len(figures))
    for end in next(iter(figures.values()), {}):
        samples = [Sample((name,), each[end]) for name, each in figures.items()]
        text = f"Partition: {end.replace('_', ' ')}"
        yield MetricFamily(name=f"slurm_partition_{end}", help=text, labels=("partition",), samples=samples)


def _of_partition(partition: PartitionRow, nodes: Mapping[str, SlurmNode]) -> dict[str, int]:
    own = [nodes[name] for name in partition.nodes if name in nodes]
    states = {f"nodes_{_OF_PARTITION.get(name, name)}": count for name, count in count_states(own).items()}
    return states | {
        "nodes": len(own),
        "cpus": sum(node.cpus for node in own),
        "gpus": sum(map(_gpus, own)),
        "nodes_cpus_alloc": sum(node.alloc_cpus for node in own),
        "nodes_cpus_efctv": sum(node.effective_cpus for node in own),
        "nodes_cpus_idle": sum(node.effective_cpus - node.alloc_cpus for node in own),
        "nodes_mem_alloc": sum(node.alloc_memory_mib for node in own),
        "nodes_mem_avail": sum(node.effective_memory_mib for node in own),
        "nodes_mem_tot": sum(node.memory_mib for node in own),
    }
