"""The queue as slurmrestd lists it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sunkpy.slurm.overview import QueuedJobsReply

RECORDED = Path(__file__).parent / "recorded"


def first(**changed: Any) -> Any:
    body = {"jobs": [{"job_id": 7, "job_state": ["PENDING"], "node_count": {"set": True, "number": 2}} | changed]}
    return QueuedJobsReply.read(json.dumps(body).encode()).jobs[0].to_queue("k8s")


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*/*/job-running.json")), ids=lambda path: path.parts[-2])
def test_a_job_as_slurm_answers(path: Path) -> None:
    body = json.loads(path.read_text())["body"]
    (found,) = QueuedJobsReply.read(json.dumps(body).encode()).jobs
    job = found.to_queue("k8s")
    assert (job.name, job.row.comment.startswith("k8s:")) == ("web-0", True)
    assert job.priority > 0
    assert job.starts_s >= job.submitted_s > 1_795_000_000


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        ({"tres_req_str": "cpu=2,mem=4G,gres/gpu=3"}, 3),
        ({"tres_req_str": "cpu=2", "tres_per_node": "gres/gpu:h100:4,gres/nic:1"}, 8),
        ({"tres_req_str": "cpu=2"}, 0),
    ],
)
def test_gpus_that_a_waiting_job_asks_for(asked: dict[str, str], gpus: int) -> None:
    assert first(**asked).gpus == gpus


@pytest.mark.parametrize(
    ("said", "number", "is_it"),
    [
        ({}, "7", True),
        ({}, "8", False),
        ({}, "7_1", False),
        ({"array_job_id": {"set": True, "number": 5}, "array_task_id": {"set": True, "number": 3}}, "5_3", True),
        ({"array_job_id": {"set": True, "number": 5}, "array_task_id": {"set": True, "number": 3}}, "5_4", False),
        ({"array_job_id": {"set": True, "number": 7}, "array_task_string": "1-3,900%2"}, "7_900", True),
        ({"array_job_id": {"set": True, "number": 7}, "array_task_string": "0-9:3"}, "7_6", True),
        ({"array_job_id": {"set": True, "number": 7}, "array_task_string": "0-9:3"}, "7_7", False),
        ({"array_job_id": {"set": True, "number": 7}, "array_task_string": "1,3,5,..."}, "7_99", True),
        ({"het_job_id": {"set": True, "number": 6}, "het_job_offset": {"set": True, "number": 1}}, "6+1", True),
        ({"het_job_id": {"set": True, "number": 6}, "het_job_offset": {"set": True, "number": 1}}, "6+0", False),
        ({"het_job_id": {"set": True, "number": 0}, "het_job_offset": {"set": True, "number": 0}}, "0+0", False),
    ],
)
def test_a_job_is_known_by_the_number_that_squeue_prints(said: dict[str, Any], number: str, is_it: bool) -> None:
    assert first(**said).is_called(number) is is_it


def test_a_comment_counts_as_the_pods_only_where_the_scheduler_wrote_it() -> None:
    forged = "k8s:default/web:uid"
    assert first(user_name="ann", comment=forged).row.comment == ""
    assert first(user_name="ann", comment="x", admin_comment=forged).row.comment == forged


def test_the_nodes_that_a_job_names() -> None:
    assert first(required_nodes="n[1-2],login").required_nodes == ("n1", "n2", "login")
    assert first().required_nodes == ()


@pytest.mark.parametrize(
    ("state", "limit", "ends"),
    [
        ("RUNNING", {"set": False, "infinite": True, "number": 0}, 0),
        ("RUNNING", {"set": True, "infinite": False, "number": 60}, 1_827_465_121),
        ("COMPLETED", {"set": False, "infinite": True, "number": 0}, 1_827_465_121),
    ],
)
def test_a_job_without_a_time_limit_has_no_end_while_it_runs(state: str, limit: dict[str, Any], ends: int) -> None:
    end_time = {"set": True, "infinite": False, "number": 1_827_465_121}
    assert first(job_state=[state], time_limit=limit, end_time=end_time).ended_s == ends
