"""When many jobs wait for what a NodeSet could have, and the words."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.figures.nodes import PartitionRow
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.nodeset.jobs_waiting import (
    AGAIN_S,
    WAITED_S,
    Waiting,
    WaitingReport,
    event_text,
    find_waiting,
    make_report,
)
from sunkpy.core.nodeset.spec import NodeSetStatus
from tests.unit.core.nodeset.build import make_nodeset

NAMES = tuple(f"g{number}" for number in range(4))
IDLE = {name: SlurmNode(name=name, state=frozenset({"IDLE"})) for name in NAMES}


def jobs(tasks: int, reason: str, *, partition: str = "gpu", state: str = "PENDING") -> JobRow:
    return JobRow(id=1, state=frozenset({state}), reason=reason, partition=partition, tasks=tasks)


def found(
    *queue: JobRow, nodes: dict[str, SlurmNode] = IDLE, served: tuple[str, ...] = NAMES, own: tuple[str, ...] = NAMES
) -> Waiting | None:
    """The jobs that wait for NodeSet `gpu`, whose nodes are in partitions gpu and all; partition cpu has others."""
    partitions = [PartitionRow(name=name, nodes=served) for name in ("gpu", "all")]
    partitions.append(PartitionRow(name="cpu", nodes=("c1",)))
    return find_waiting(queue, partitions, nodes, {"gpu": frozenset(own)}).get("gpu")


@pytest.mark.parametrize(
    ("queue", "count"),
    [
        ([jobs(10, "Resources")], 10),
        ([jobs(9, "Resources")], None),
        ([jobs(1, "Resources"), jobs(40, "Priority")], 41),  # one is first, the others are behind it
        ([jobs(40, "Priority")], None),  # nothing lacks nodes there
        ([jobs(1, "Resources", partition="cpu"), jobs(40, "Priority")], None),
        ([jobs(1, "Resources", partition="all"), jobs(20, "Priority"), jobs(9, "Priority", partition="all")], 10),
        ([jobs(10, "Resources", partition="cpu,gpu")], 10),
        ([jobs(10, "Resources", partition="gpu,all")], 10),  # each counts once
        ([jobs(10, "Resources", partition="cpu")], None),
        ([jobs(10, "Resources", state="RUNNING")], None),
        ([jobs(1, "Resources"), *(jobs(40, reason) for reason in ("JobHeldUser", "Dependency", "BeginTime"))], None),
        ([jobs(1, "Resources"), *(jobs(40, reason) for reason in ("AssocGrpGRES", "QOSMaxJobsPerUserLimit"))], None),
        ([jobs(1, "Resources"), *(jobs(40, reason) for reason in ("Licenses", "Reservation", ""))], None),
    ],
)
def test_many_jobs_wait_for_nodes_of_its_partitions(queue: list[JobRow], count: int | None):
    waiting = found(*queue)
    assert (waiting.jobs if waiting is not None else None) == count


def test_of_a_large_nodeset_more_jobs_are_many():
    large = tuple(f"g{number}" for number in range(500))
    assert found(jobs(49, "Resources"), served=large, own=large) is None
    assert found(jobs(50, "Resources"), served=large, own=large) is not None


def test_a_nodeset_whose_nodes_no_partition_has_has_no_queue():
    assert found(jobs(50, "Resources"), served=("c1",)) is None


def test_its_nodes_that_take_no_job_are_counted():
    states = {"g0": {"IDLE"}, "g1": {"IDLE", "DRAIN"}, "g2": {"MIXED", "DRAIN"}, "g3": {"DOWN", "DRAIN"}}
    nodes = {name: SlurmNode(name=name, state=frozenset(state)) for name, state in states.items()}
    own = (*NAMES, "of-a-slurmd-that-has-not-registered")
    waiting = found(jobs(10, "Resources", partition="gpu,cpu"), nodes=nodes, own=own)
    assert waiting == Waiting(jobs=10, partitions=frozenset({"gpu"}), drained=2, down=2)


@dataclass(frozen=True)
class Case:
    text: str
    waits: dict[str, int] = field(default_factory=dict)
    desired: int = 4
    feasible: int = 4


def reported(case: Case, *, is_deleting: bool = False) -> tuple[Waiting, WaitingReport]:
    status = NodeSetStatus(desired_number_scheduled=case.desired, number_feasible=case.feasible)
    nodeset = make_nodeset(deleting=is_deleting, status=status)
    waiting = Waiting(jobs=41, partitions=frozenset({"gpu"}), **case.waits)
    return waiting, make_report(waiting, nodeset, 0.0)


@pytest.mark.parametrize(
    "case",
    [
        Case("3 drained, 2 more feasible (raise spec.replicas)", {"drained": 3}, feasible=6),
        Case("1 drained, 2 down", {"drained": 1, "down": 2}),
        Case("1 wanted that do not fit (see condition Feasible)", feasible=3),
    ],
    ids=lambda case: case.text,
)
def test_the_event_says_what_it_could_have(case: Case):
    waiting, report = reported(case)
    assert report.is_news(None)
    text = event_text(waiting, report)
    assert text == f"41 jobs wait for nodes of partition gpu. Nodes of this NodeSet: {case.text}"


def test_several_partitions_are_named():
    waiting = Waiting(jobs=10, partitions=frozenset({"gpu", "all"}), down=1)
    text = event_text(waiting, make_report(waiting, make_nodeset(), 0.0))
    assert text == "10 jobs wait for nodes of partitions all,gpu. Nodes of this NodeSet: 1 down"


def test_a_nodeset_whose_nodes_all_work_and_that_takes_every_feasible_one_has_no_event():
    assert not reported(Case(""))[1].is_news(None)


def test_a_nodeset_that_is_deleted_is_not_asked_for_more():
    assert not reported(Case("", feasible=6), is_deleting=True)[1].is_news(None)


@pytest.mark.parametrize(
    ("now", "after_s", "is_news"),
    [
        ({"drained": "3 drained"}, WAITED_S, False),
        ({"drained": "4 drained"}, WAITED_S, False),  # a number alone
        ({"down": "3 down"}, WAITED_S, True),
        ({"drained": "3 drained", "down": "1 down"}, WAITED_S, True),
        ({"drained": "3 drained"}, AGAIN_S, True),
        ({}, AGAIN_S, False),
    ],
)
def test_the_same_is_reported_again_only_after_a_while(now: dict[str, str], after_s: float, is_news: bool):
    last = WaitingReport(could_have={"drained": "3 drained"}, at_s=100.0)
    assert WaitingReport(could_have=now, at_s=100.0 + after_s).is_news(last) == is_news
