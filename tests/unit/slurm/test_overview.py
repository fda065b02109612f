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


def test_a_comment_counts_as_the_pods_only_where_the_scheduler_wrote_it() -> None:
    forged = "k8s:default/web:uid"
    assert first(user_name="ann", comment=forged).row.comment == ""
    assert first(user_name="ann", comment="x", admin_comment=forged).row.comment == forged
