"""What a job that waits asks of nodes, in the words of slurmrestd."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sunkpy.core.growth.excluded import Excluded
from sunkpy.core.growth.waiting import WaitingJob
from sunkpy.slurm.figures import JobRowsReply

GIB = 2**30


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def waiting(**fields: Any) -> WaitingJob | None:
    body = {"job_id": 7, "job_state": ["PENDING"], "partition": "main", "priority": number(3), **fields}
    (job,) = JobRowsReply.read(json.dumps({"jobs": [body]}).encode()).jobs
    return job.to_core("k8s").waits


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"tres_req_str": "cpu=4,mem=1.50G,node=2,billing=4"},
         {"nodes": 2, "total": {"cpu": 4000, "memory": GIB * 3 // 2}}),
        ({"node_count": number(3), "cpus": number(3)}, {"nodes": 3, "total": {"cpu": 3000}}),
        ({"tres_per_node": "gres/gpu:h100:8"}, {"per_node": {"gpu": 8, "gpu:h100": 8}}),
        ({"tres_per_node": "gres/gpu=8,cpu=2"}, {"per_node": {"gpu": 8}}),
        ({"tres_per_task": "cpu=2,gres/gpu:1", "cpus_per_task": number(2), "tasks": number(5)},
         {"per_task": {"cpu": 2000, "gpu": 1}, "tasks": 5}),
        ({"tres_per_job": "gres/gpu:16"}, {"total": {"gpu": 16}}),
        ({"tres_req_str": "cpu=1,gres/gpu=4"}, {"total": {"cpu": 1000, "gpu": 4}}),
        ({"tres_req_str": "cpu=1,gres/gpu=4", "tres_per_node": "gres/gpu:4"},
         {"total": {"cpu": 1000}, "per_node": {"gpu": 4}}),
        ({"minimum_cpus_per_node": number(4)}, {"per_node": {"cpu": 4000}}),
        ({"shared": ["none"]}, {"whole_nodes": True}),
        ({"shared": []}, {"whole_nodes": False}),
        ({"max_nodes": number(9)}, {"max_nodes": 9}),
        ({"features": "a&b"}, {"constraint": "a&b"}),
        ({"partition": "low,high"}, {"partitions": ("low", "high")}),
        ({"state_reason": "None"}, {"reason": ""}),
        ({"state_reason": "Resources"}, {"reason": "Resources"}),
        ({"user_name": "ann", "account": "chem", "qos": "long"}, {"user": "ann", "account": "chem", "qos": "long"}),
        ({"resv_name": "r"}, {"reservation": "r"}),
        ({"licenses": "matlab:2,b@db:1"}, {"licenses": ("b@db", "matlab")}),
        ({"licenses": "a|b:2"}, {"licenses": ("a", "b")}),
        ({"licenses": None}, {"licenses": ()}),
        ({"required_nodes": "n[1-2]"}, {"names_nodes": True}),
        ({"excluded_nodes": "n[1-2]"}, {"excluded": Excluded("n[1-2]")}),
        ({"array_job_id": number(7), "array_task_string": "1-9"}, {"copies": 9, "label": "7_[1-9]"}),
        ({"array_job_id": number(7), "array_task_string": "1-9%4", "array_max_tasks": number(4)}, {"copies": 4}),
        ({"het_job_id": number(6)}, {"het_job": 6, "label": "6+"}),
    ],
)  # fmt: skip
def test_what_it_asks_for(fields, wanted):
    found = waiting(**fields)
    assert {name: getattr(found, name) for name in wanted} == wanted


@pytest.mark.parametrize("state", [["RUNNING"], ["PENDING", "COMPLETING"], ["COMPLETED"], ["CANCELLED"]])
def test_one_that_has_nodes_or_has_ended_asks_for_none(state):
    assert waiting(job_state=state) is None


def test_a_long_list_of_tasks_is_cut():
    found = waiting(array_job_id=number(7), array_task_string=",".join(map(str, range(1, 90, 2))))
    assert found is not None
    assert found.label == "7_[1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,…]"


def test_jobs_that_exclude_the_same_nodes_share_one_list():
    one, other = (waiting(job_id=n, excluded_nodes="n[1-5000]") for n in (1, 2))
    assert one is not None
    assert other is not None
    assert one.excluded is other.excluded
    assert one.excluded.nodes is other.excluded.nodes
    assert one.kind == other.kind
