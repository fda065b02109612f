"""How long nodes have been drained."""

from __future__ import annotations

from sunkpy.core.figures.drains import DrainTimes
from sunkpy.core.model.states import SlurmNode


def nodes(**states: str) -> dict[str, SlurmNode]:
    return {name: SlurmNode(name=name, state=frozenset(state.split("+"))) for name, state in states.items()}


def seconds(times: DrainTimes) -> dict[tuple[str, ...], float]:
    return {sample.labels: sample.value for sample in times.family.samples}


def test_the_time_between_two_reads_counts_where_both_saw_the_same() -> None:
    times = DrainTimes(lambda _: "gpu")
    times.add(nodes(n1="IDLE", n2="IDLE+DRAIN"), 100)
    times.add(nodes(n1="MIXED+DRAIN", n2="IDLE+DRAIN"), 130)
    assert seconds(times) == {("n1", "gpu", "draining"): 0, ("n2", "gpu", "drained"): 30}
    times.add(nodes(n1="MIXED+DRAIN", n2="IDLE"), 160)
    times.add(nodes(n1="IDLE+DRAIN", n2="IDLE"), 190)
    times.add(nodes(n1="IDLE+DRAIN", n2="IDLE+DRAIN"), 220)
    assert seconds(times) == {
        ("n1", "gpu", "draining"): 30,
        ("n1", "gpu", "drained"): 30,
        ("n2", "gpu", "drained"): 30,
    }


def test_a_node_without_a_pod_stays_in_its_nodeset() -> None:
    known = {"n1": "gpu"}
    times = DrainTimes(lambda name: known.get(name, ""))
    times.add(nodes(n1="IDLE+DRAIN"), 100)
    known.clear()
    times.add(nodes(n1="IDLE+DRAIN"), 101)
    assert seconds(times) == {("n1", "gpu", "drained"): 1}


def test_a_node_that_is_gone_has_no_series() -> None:
    times = DrainTimes(lambda _: "gpu")
    times.add(nodes(n1="IDLE+DRAIN"), 100)
    times.add({}, 101)
    assert seconds(times) == {}
