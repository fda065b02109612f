"""Slurm nodes and partitions as slurmctld counts them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.figures.family import MetricFamily
from sunkpy.core.figures.nodes import PartitionRow, node_families, partition_families, state_families
from sunkpy.core.model.states import SlurmNode

BASE = ("future", "down", "mixed", "alloc", "idle", "unknown")


def node(name: str, *state: str, alloc_cpus: int = 0) -> SlurmNode:
    return SlurmNode(
        name=name,
        state=frozenset(state),
        cpus=8,
        alloc_cpus=alloc_cpus,
        effective_cpus=6,
        memory_mib=4000,
        effective_memory_mib=3500,
        gres="gpu:h100:2(S:0),nic:1",
    )


def figures(families: Iterable[MetricFamily]) -> dict[tuple[str, tuple[str, ...]], float]:
    return {(family.name, labels): value for family in families for labels, value in family.samples}


@pytest.mark.parametrize(
    ("state", "names"),
    [
        (("IDLE",), {"idle"}),
        (("IDLE", "DRAIN"), {"idle", "drain", "drained"}),
        (("MIXED", "DRAIN"), {"mixed", "mix", "draining"}),
        (("IDLE", "DRAIN", "COMPLETING"), {"idle", "draining", "completing", "comp"}),
        (("DOWN", "NOT_RESPONDING"), {"down", "noresp", "not_responding"}),
        (("ALLOCATED", "DYNAMIC_NORM"), {"alloc", "dyn_normal"}),
        (("IDLE", "MAINTENANCE", "RESERVED"), {"idle", "maint", "resv"}),
        (("IDLE", "REBOOT_REQUESTED"), {"idle", "reboot_req"}),
        (("UNKNOWN", "POWERING_UP"), {"unknown", "powering_up"}),
    ],
)
def test_under_which_names_a_node_counts(state: tuple[str, ...], names: set[str]) -> None:
    found = figures(state_families([node("n1", *state)]))
    assert {name for (name, _), value in found.items() if value} == {
        "slurm_nodes",
        "slurm_nodes_total",
        *(f"slurm_nodes_{name}" for name in names),
    }


def test_what_a_node_has() -> None:
    found = figures(node_families({"n1": node("n1", "MIXED", alloc_cpus=4)}, {"n1": 1}))
    of_node = {name.removeprefix("slurm_node_"): value for (name, labels), value in found.items() if labels == ("n1",)}
    assert of_node == {
        "cpus": 8, "cpus_alloc": 4, "cpus_effective": 6, "cpus_idle": 2, "gpus": 2, "gpus_alloc": 1,
        "memory_bytes": 4000, "memory_alloc_bytes": 0, "memory_effective_bytes": 3500,
    }  # fmt: skip


def test_a_node_without_gpus_has_none() -> None:
    bare = msgspec.structs.replace(node("n1", "IDLE"), gres="nic:1")
    assert figures(node_families({"n1": bare}, {}))["slurm_node_gpus", ("n1",)] == 0


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({"IDLE", "DYNAMIC_NORM"}, "IDLE"),
        ({"DRAIN", "MIXED", "DYNAMIC_NORM"}, "MIXED+DRAIN"),
        ({"NOT_RESPONDING", "DOWN", "DRAIN"}, "DOWN+DRAIN+NOT_RESPONDING"),
        (set(), ""),
    ],
)
def test_the_state_of_a_node_is_one_series_with_its_reason(state: set[str], text: str) -> None:
    closed = SlurmNode(name="n1", state=frozenset(state), reason='disk "a"')
    found = figures(node_families({"n1": closed}, {}))
    assert found["sunkpy_node_state", ("n1", text, 'disk "a"')] == 1


def test_a_partition_is_the_sum_of_its_nodes() -> None:
    nodes = {name: node(name, "IDLE", alloc_cpus=1) for name in ("n1", "n2", "n3")}
    rows = [PartitionRow(name="low", nodes=("n1", "n2", "gpu_potential_1f3c5a_1")), PartitionRow(name="none")]
    found = figures(partition_families(rows, nodes))
    low = {
        name.removeprefix("slurm_partition_"): value for (name, labels), value in found.items() if labels == ("low",)
    }
    assert (low["nodes"], low["nodes_idle"], low["cpus"], low["gpus"]) == (2, 2, 16, 4)
    assert (low["nodes_cpus_idle"], low["nodes_mem_tot"], low["nodes_mem_avail"]) == (10, 8000, 7000)
    assert found["slurm_partitions", ()] == 2
    assert found["slurm_partition_nodes", ("none",)] == 0


@given(st.lists(st.sampled_from(["IDLE", "DOWN", "MIXED", "ALLOCATED", "FUTURE", "UNKNOWN"])))
def test_base_states_add_up_to_all(states: list[str]) -> None:
    found = figures(state_families([node(f"n{at}", state, "DRAIN") for at, state in enumerate(states)]))
    assert sum(found[f"slurm_nodes_{name}", ()] for name in BASE) == found["slurm_nodes", ()] == len(states)
    assert found["slurm_nodes_drained", ()] + found["slurm_nodes_draining", ()] == len(states)
