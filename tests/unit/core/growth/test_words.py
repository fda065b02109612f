import pytest

from sunkpy.core.growth.words import describe, describe_for
from sunkpy.core.model.growth import GrowthRequest, GrowthStatus

SINCE = "2026-11-28T12:00:00Z"
GROWTH = GrowthStatus(
    wanted_nodes=6,
    requests=tuple(GrowthRequest(job=job, nodes=nodes) for job, nodes in (("7", 3), ("9_[1-4]", 2), ("12+", 1))),
    reason="job 8: needs 200 nodes, and there can be 100; 2 jobs wait for nodes beyond its potential of 100",
    since=SINCE,
)


def test_a_nodeset_says_what_is_wanted_and_who_is_not_helped():
    assert list(describe(GROWTH)) == [
        f"6 nodes more wanted since {SINCE}: 3 for job 7, 2 for job 9_[1-4], 1 for job 12+",
        "job 8: needs 200 nodes, and there can be 100; 2 jobs wait for nodes beyond its potential of 100",
    ]
    assert list(describe(None)) == []


@pytest.mark.parametrize(
    ("job", "fields", "said"),
    [
        (7, {}, [f"3 nodes more of NodeSet gpu, wanted since {SINCE}"]),
        (9, {}, [f"2 nodes more of NodeSet gpu, wanted since {SINCE}"]),
        (10, {"array": 9}, [f"2 nodes more of NodeSet gpu, wanted since {SINCE}"]),
        (13, {"het_job": 12}, [f"1 node more of NodeSet gpu, wanted since {SINCE}"]),
        (8, {}, ["more nodes of NodeSet gpu do not help it: needs 200 nodes, and there can be 100"]),
        (1, {}, []),
    ],
)
def test_a_job_says_what_is_wanted_for_it(job, fields, said):
    assert describe_for(job, {"gpu": GROWTH, "cpu": None}, **fields) == said
