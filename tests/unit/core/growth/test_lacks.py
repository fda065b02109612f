"""Which nodes jobs lack: a queue and NodeSets in, requests out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sunkpy.core.growth.excluded import TOO_MANY, Excluded
from sunkpy.core.growth.lacks import HET_JOBS, Lack, find_lacks
from sunkpy.core.growth.pools import Pool, Room
from sunkpy.core.growth.waiting import WaitingJob
from tests.unit.core.growth.build import NODE, amounts, make_job, make_pool


@dataclass(frozen=True)
class Case:
    jobs: tuple[WaitingJob, ...]
    wanted: dict[str, int]
    pools: tuple[Pool, ...] = field(default_factory=lambda: (make_pool(),))
    tiers: dict[str, int] = field(default_factory=dict)


def six(id: int, **fields: Any) -> WaitingJob:
    """A job that takes six whole nodes of ten that there may be."""
    return make_job(id, nodes=6, cpus=8, **fields)


TEN = (make_pool(potential=10),)
CASES = {
    "one job, no node": Case((make_job(),), {"1": 1}),
    "it fits where there is room": Case((make_job(),), {}, (make_pool(free=1),)),
    "a hundred nodes, ten are there": Case((make_job(nodes=100),), {"1": 90}, (make_pool(free=10),)),
    "what joins counts": Case((make_job(nodes=100),), {}, (make_pool(free=100),)),
    "small jobs share a node": Case(tuple(make_job(n, cpus=2) for n in range(1, 9)), {"1": 1, "5": 1}),
    "whole nodes are not shared": Case(
        (make_job(1, whole_nodes=True), make_job(2), make_job(3, whole_nodes=True)), {"1": 1, "2": 1, "3": 1}
    ),
    "a whole node that is used in part does not do": Case(
        (make_job(1, whole_nodes=True),),
        {"1": 1},
        (make_pool(free=1, rooms=(Room(node="cpu-0", left=amounts(7, 64)),)),),
    ),
    "no more than may be": Case((six(1), six(2)), {"1": 6}, TEN),
    "a smaller job behind it goes on": Case(
        (six(1), six(2), make_job(3, nodes=4, cpus=8)), {"1": 6, "3": 4}, TEN
    ),
    "the first in line waits for busy nodes, too": Case(
        (make_job(nodes=100),), {"1": 90}, (make_pool(busy=10, potential=100),)
    ),
    "one behind it buys nothing that stands idle": Case(
        (make_job(1, nodes=5), make_job(2, nodes=100)), {"1": 5}, (make_pool(busy=10, potential=100),)
    ),
    "nothing beyond what there can ever be": Case((make_job(nodes=101),), {}, (make_pool(busy=10, potential=100),)),
    "higher priority first": Case(
        (six(1, priority=1), six(2, priority=2)), {"2": 6}, TEN
    ),
    "a higher tier before priority": Case(
        (six(1), msgspec.structs.replace(six(2, priority=1), partitions=("high",))),
        {"2": 6},
        (make_pool(potential=10, partitions={"main", "high"}),),
        {"high": 10, "main": 1},
    ),
    "tasks of an array, each whole": Case(
        (make_job(copies=5, nodes=3, cpus=8, label="1_[1-5]"),), {"1_[1-5]": 9}, (make_pool(potential=11),)
    ),
    "tasks of an array share nodes": Case((make_job(copies=20, cpus=2),), {"1": 5}),
    "both parts of a heterogeneous job": Case(
        (make_job(1, nodes=2, het_job=1, label="1+"), make_job(2, nodes=3, cpus=8, het_job=1, label="1+")), {"1+": 5}
    ),
    "not one part of it alone": Case(
        (make_job(1, cpus=8, nodes=2, het_job=1), make_job(2, cpus=8, nodes=9, het_job=1), make_job(3, cpus=8)),
        {"3": 1},
        TEN,
    ),
    "not when one of its parts waits for something else": Case(
        (make_job(1, het_job=1), make_job(2, het_job=1, reason="Dependency")), {}
    ),
    "tasks lie on as many nodes as they need": Case((make_job(tasks=20, per_node={}, per_task=amounts(3)),), {"1": 10}),
    "cpus and memory of all together": Case((make_job(nodes=2, per_node={}, total=amounts(20, 200)),), {"1": 4}),
    "the cheaper NodeSet": Case(
        (make_job(nodes=2),), {"1": 2}, (make_pool("a", weight=5), make_pool("b", weight=1))
    ),
    "a NodeSet that does not grow is used first": Case(
        (make_job(nodes=3),), {"1": 1}, (make_pool("a", free=2, potential=0), make_pool("b", weight=9))
    ),
    "over two NodeSets, if one has too few": Case(
        (make_job(nodes=5),), {"1": 5}, (make_pool("a", potential=3), make_pool("b", potential=3))
    ),
    "GPUs of a type": Case(
        (make_job(per_node={"gpu": 8, "gpu:h100": 8}, nodes=2),),
        {"1": 2},
        (make_pool("a"), make_pool("b", shape={**NODE, "gpu": 8, "gpu:h100": 8})),
    ),
    "a feature": Case((make_job(constraint="b&x"),), {"1": 1}, (make_pool("a"), make_pool("b", features=("x",)))),
    "another partition": Case((msgspec.structs.replace(make_job(), partitions=("other",)),), {}),
    "a NodeSet that pods may not use": Case((make_job(excluded=Excluded("cpu-0")),), {}, (make_pool(busy=1),)),
    "a node that is excluded gives no room": Case(
        (make_job(excluded=Excluded("cpu-0")),), {"1": 1}, (make_pool(free=1, busy=1),)
    ),
    "a shape that nobody knows": Case((make_job(),), {}, (make_pool(shape=None),)),
}  # fmt: skip


def lacks_of(case: Case) -> dict[str, Lack]:
    return find_lacks(case.jobs, case.pools, case.tiers)


def requests(lacks: dict[str, Lack]) -> dict[str, int]:
    found: dict[str, int] = {}
    for lack in lacks.values():
        for each in lack.requests:
            found[each.job] = found.get(each.job, 0) + each.nodes
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_lacking(case):
    assert requests(lacks_of(case)) == case.wanted


@pytest.mark.parametrize(
    ("name", "of"),
    [("the cheaper NodeSet", {"b": 2}), ("GPUs of a type", {"b": 2}), ("a feature", {"b": 1}),
     ("over two NodeSets, if one has too few", {"a": 3, "b": 2})],
)  # fmt: skip
def test_of_which_nodeset(name, of):
    assert {pool: lack.nodes for pool, lack in lacks_of(CASES[name]).items() if lack.nodes} == of


@pytest.mark.parametrize(
    "reason",
    ["Dependency", "JobHeldUser", "JobHeldAdmin", "BeginTime", "Licenses", "Reservation", "QOSMaxNodePerUserLimit",
     "AssocGrpNodeLimit", "PartitionNodeLimit", "PartitionDown", "JobArrayTaskLimit", "DependencyNeverSatisfied"],
)  # fmt: skip
def test_what_waits_for_something_else_lacks_no_node(reason):
    assert requests(find_lacks([make_job(reason=reason)], [make_pool()], {})) == {}


@pytest.mark.parametrize(
    ("limit", "other", "lacks"),
    [
        ("QOSMaxJobsPerUserLimit", {}, False),
        ("QOSMaxJobsPerUserLimit", {"reason": ""}, False),
        ("QOSMaxJobsPerUserLimit", {"reason": "Resources"}, True),
        ("QOSMaxJobsPerUserLimit", {"user": "bob"}, True),
        ("QOSMaxJobsPerUserLimit", {"qos": "short"}, True),
        ("QOSMaxJobsPerUserLimit", {"account": "bio"}, False),
        ("AssocMaxJobsLimit", {"qos": "short"}, False),
        ("AssocMaxJobsLimit", {"account": "bio"}, True),
        ("AssocGrpNodeLimit", {"user": "bob", "qos": "short"}, False),
        ("AssocGrpNodeLimit", {"account": "bio"}, True),
        ("QOSGrpCpuLimit", {"user": "bob", "account": "bio"}, False),
        ("QOSGrpCpuLimit", {"qos": "short"}, True),
        ("MaxNodePerAccount", {"user": "bob"}, False),
        ("Licenses", {"user": "bob", "account": "bio", "qos": "short"}, False),
        ("Licenses", {"licenses": ("b", "matlab")}, False),
        ("Licenses", {"licenses": ("b",)}, True),
        ("Licenses", {"reason": "Resources"}, True),
        ("QOSMaxNodePerJobLimit", {}, True),
        ("QOSMinGRES", {}, True),
        ("Dependency", {}, True),
    ],
)
def test_a_job_that_slurm_has_not_looked_at_is_bound_by_the_limit_of_one_before_it(limit, other, lacks):
    whose = {"user": "ann", "account": "chem", "qos": "long", "licenses": ("matlab",)}
    jobs = [make_job(1, reason=limit, **whose), make_job(2, **{"reason": "Priority", **whose, **other})]
    assert requests(find_lacks(jobs, [make_pool()], {})) == ({"2": 1} if lacks else {})


@pytest.mark.parametrize("reason", ["", "Resources", "Priority", "ReqNodeNotAvail", "PartitionConfig"])
def test_what_nodes_may_help_lacks_them(reason):
    assert requests(find_lacks([make_job(reason=reason)], [make_pool()], {})) == {"1": 1}


@pytest.mark.parametrize("fields", [{"priority": 0}, {"reservation": "r"}, {"names_nodes": True}, {"copies": 0}])
def test_what_no_node_more_can_help(fields):
    assert requests(find_lacks([make_job(**fields)], [make_pool()], {})) == {}


@pytest.mark.parametrize(
    ("job", "pools", "why"),
    [
        (make_job(cpus=16), [make_pool()], "a node of this NodeSet lacks cpu: needs 16, has 8"),
        (make_job(per_node={"gpu": 1}), [make_pool()], "a node of this NodeSet lacks gpu: needs 1, has 0"),
        (make_job(nodes=200), [make_pool()], "needs 200 nodes, and there can be 100"),
        (make_job(nodes=2, max_nodes=2, per_node={}, total=amounts(20)), [make_pool()],
         "needs 3 nodes of this NodeSet, and asks for 2 at most"),
        (make_job(constraint="[a*2&b*3]"), [make_pool()], "constraint [a*2&b*3] is not understood"),
        (make_job(constraint="(" * 5000), [make_pool()], f"constraint {'(' * 100}… is not understood"),
    ],
)  # fmt: skip
def test_it_is_told_why_a_job_can_never_be_helped(job, pools, why):
    assert find_lacks([job], pools, {})["cpu"] == Lack(never={"1": why})


def test_a_job_that_another_nodeset_can_help_is_told_of_nowhere():
    lacks = find_lacks([make_job(cpus=16)], [make_pool("a"), make_pool("b", shape=amounts(32, 64))], {})
    assert [lack.never for lack in lacks.values()] == [{}, {}]


def test_of_many_jobs_three_are_told_and_the_others_counted():
    jobs = [make_job(n, cpus=16) for n in range(1, 11)]
    lack = find_lacks(jobs, [make_pool()], {})["cpu"]
    assert (list(lack.never), lack.more) == (["1", "2", "3"], 7)


@pytest.mark.parametrize(
    ("jobs", "pools", "held"),
    [
        pytest.param((), (make_pool(free=4),), [], id="nothing waits"),
        pytest.param((make_job(nodes=4),), (make_pool(free=4),), [], id="it starts in a moment"),
        pytest.param((make_job(reason="Priority"),), (make_pool(free=4),), [], id="Slurm looks at it in a moment"),
        pytest.param((make_job(reason="ReqNodeNotAvail"),), (make_pool(free=4),), ["cpu"], id="before a reservation"),
        pytest.param((make_job(nodes=100),), (make_pool(free=40, busy=60),), ["cpu"], id="the others are busy"),
        pytest.param((make_job(nodes=100),), (make_pool(free=30, busy=60),), ["cpu"], id="and others are bought"),
        pytest.param((make_job(nodes=4),), (make_pool(free=4, joining=1),), ["cpu"], id="one of them joins"),
        pytest.param((make_job(),), (make_pool(free=4, joining=1),), [], id="it needs one alone"),
        pytest.param((make_job(nodes=4),), (make_pool("a", free=3, potential=3), make_pool("b")), ["a"],
                     id="the last one is bought elsewhere"),
        pytest.param((make_job(nodes=101),), (make_pool(free=40, busy=60),), [], id="it never starts"),
        pytest.param((make_job(1, nodes=2, het_job=1), make_job(2, nodes=101, het_job=1)), (make_pool(free=1),), [],
                     id="a part of it never starts"),
    ],
)  # fmt: skip
def test_idle_nodes_are_held_for_a_job_that_waits_for_others_too(jobs, pools, held):
    assert [name for name, lack in find_lacks(jobs, pools, {}).items() if lack.is_held] == held


def test_those_behind_are_counted():
    jobs = [six(n) for n in range(1, 4)]
    assert find_lacks(jobs, TEN, {})["cpu"].behind == 2


def test_of_many_heterogeneous_jobs_the_first_are_looked_at_and_the_others_counted():
    """For each all rooms are copied."""
    parts = [make_job(n, het_job=n // 2 * 2, cpus=8, label=f"{n // 2 * 2}+") for n in range(2, 2 * HET_JOBS + 6)]
    lack = find_lacks([*parts, make_job(9999)], [make_pool(potential=1000)], {})["cpu"]
    assert (len(lack.requests), lack.nodes, lack.unseen) == (HET_JOBS + 1, 2 * HET_JOBS + 1, 2)


def test_a_job_whose_excluded_nodes_were_too_many_to_keep_asks_for_none_and_is_counted():
    lack = find_lacks([make_job(1, excluded=TOO_MANY), make_job(2, cpus=8)], [make_pool()], {})["cpu"]
    assert ([each.job for each in lack.requests], lack.unseen) == (["2"], 1)


def test_a_nodeset_whose_nodes_come_in_vain_is_told_and_another_one_grows():
    stopped = make_pool("a", busy=3, unregistered=frozenset({"a-0", "a-1", "a-2"}))
    assert find_lacks([make_job()], [stopped], {})["a"] == Lack(
        behind=1, unregistered=stopped.unregistered, is_held=True
    )
    assert find_lacks([], [stopped], {})["a"] == Lack()
    both = find_lacks([make_job()], [stopped, make_pool("b")], {})
    assert (both["a"], both["b"].nodes) == (Lack(), 1)


def granted(pool: Pool, lack: Lack) -> Pool:
    """The same with all that it lacked, free."""
    come = [f"new-{n}" for n in range(lack.nodes)]
    rooms = [Room(node=node, left=pool.shape or {}, is_whole=True, features=pool.features) for node in come]
    return msgspec.structs.replace(
        pool, nodes=pool.nodes | set(come), usable=pool.usable + len(come), rooms=(*pool.rooms, *rooms)
    )


JOBS = st.lists(
    st.builds(
        make_job,
        st.integers(1, 10_000),
        cpus=st.integers(1, 9),
        nodes=st.integers(1, 6),
        priority=st.integers(0, 3),
        copies=st.integers(1, 4),
        whole_nodes=st.booleans(),
        het_job=st.sampled_from((0, 0, 0, 7)),
    ),
    max_size=12,
    unique_by=lambda job: job.id,
)
POOLS = st.tuples(
    st.builds(make_pool, st.just("a"), free=st.integers(0, 4), busy=st.integers(0, 4), potential=st.integers(0, 12)),
    st.builds(make_pool, st.just("b"), free=st.integers(0, 2), potential=st.integers(0, 12)),
)


@given(JOBS, POOLS)
@settings(deadline=None)
def test_never_more_than_may_be(jobs, pools):
    for pool in pools:
        lack = find_lacks(jobs, pools, {}).get(pool.name, Lack())
        assert lack.nodes <= pool.more
        assert all(each.nodes > 0 for each in lack.requests)


@given(JOBS, POOLS)
@settings(deadline=None)
def test_nodes_that_have_come_or_join_are_not_asked_for_again(jobs, pools):
    lacks = find_lacks(jobs, pools, {})
    after = find_lacks(jobs, [granted(pool, lacks.get(pool.name, Lack())) for pool in pools], {})
    helped = requests(lacks)
    if not any(pool.nodes and not pool.rooms for pool in pools) and all(job.copies == 1 for job in jobs):
        assert not helped.keys() & requests(after).keys()
    for pool in pools:
        both = lacks.get(pool.name, Lack()).nodes + after.get(pool.name, Lack()).nodes
        assert both <= pool.more


@given(JOBS, POOLS)
@settings(deadline=None)
def test_the_first_in_line_comes_first(jobs, pools):
    waiting = [job for job in jobs if job.waits_for_nodes and not job.het_job]
    if waiting:
        first = min(waiting, key=lambda job: (-job.priority, job.id))
        alone = requests(find_lacks([first], pools, {}))
        among = requests(find_lacks([job for job in jobs if not job.het_job], pools, {}))
        assert alone.items() <= among.items()


def test_a_long_queue_is_counted_in_the_time_of_a_short_one():
    jobs = [make_job(n, cpus=n % 8 + 1, nodes=n % 5 + 1) for n in range(1, 50_001)]
    began_s = time.process_time()
    lack = find_lacks(jobs, [make_pool(free=2_000, busy=8_000, potential=12_000)], {})["cpu"]
    assert lack.nodes == 2_000
    assert time.process_time() - began_s < 10


def test_a_long_queue_beside_nodes_of_which_each_has_other_room():
    rooms = tuple(Room(node=f"n{n}", left=amounts(n % 97, 1 + n % 89)) for n in range(10_000))
    pool = make_pool(rooms=rooms, nodes=frozenset(room.node for room in rooms), usable=10_000, potential=10_100)
    jobs = [make_job(n, cpus=1 + n % 96, nodes=n % 3 + 1) for n in range(1, 20_001)]
    began_s = time.process_time()
    assert find_lacks(jobs, [msgspec.structs.replace(pool, shape=amounts(96, 90))], {})["cpu"].nodes == 100
    assert time.process_time() - began_s < 20
