"""What is read to be counted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sunkpy.core.figures.statistics import Rpc
from sunkpy.core.model.states import JobId
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import Slurm
from sunkpy.slurm.figures import JobRowsReply
from tests.doubles.serving import serving
from tests.doubles.slurmrestd import Slurmrestd

RUNNING: dict[str, Any] = {
    "user_name": "ann",
    "account": "chem",
    "nodes": "n[1-2]",
    "node_count": {"set": True, "number": 2},
    "cpus": {"set": True, "number": 4},
    "tres_alloc_str": "cpu=4,mem=1.50G,node=2,billing=4,gres/gpu=3,gres/gpu:h100=3",
    "gres_detail": ["gpu:h100:2(IDX:0-1)", "gpu:h100:1(IDX:3)"],
    "job_resources": {"nodes": {"allocation": [{"name": "n1"}, {"name": "n2"}]}},
}


@pytest.fixture
async def slurm() -> Slurmrestd:
    return Slurmrestd()


@pytest.fixture
async def client(slurm: Slurmrestd, tmp_path) -> AsyncIterator[Slurm]:
    key = tmp_path / "jwt.key"
    key.write_bytes(b"k" * 32)
    async with serving(slurm.app()) as port:
        url = f"http://127.0.0.1:{port}"
        client = Slurm.connect(SlurmSettings(url=url, version="v0.0.45", jwt_key_file=str(key)))
        yield client
        await client.close()


async def test_what_a_job_has_is_what_was_allocated(slurm: Slurmrestd, client: Slurm) -> None:
    job = slurm.add_job(
        "RUNNING", comment="k8s:a/b:c", user="ann", **{k: v for k, v in RUNNING.items() if k != "user_name"}
    )
    (row,) = await client.job_rows(JobId(job), scheduler="k8s")
    assert (row.cpus, row.memory_mib, row.gpus, row.nodes) == (4, 1536, 3, ("n1", "n2"))
    assert {node: indices["gpu"] for node, indices in row.devices.items()} == {"n1": (0, 1), "n2": (3,)}
    assert row.comment == "", "a person's own comment proves nothing"


@pytest.mark.parametrize(
    ("changes", "times"),
    [
        ({}, (1000, 60)),
        ({"eligible_time": {}}, (1000, 100)),
        ({"eligible_time": {"set": True, "number": 1001}}, (1000, 0)),
        ({"job_state": ["PENDING"]}, (0, 0)),
        ({"nodes": "", "job_state": ["CANCELLED"]}, (0, 0)),
    ],
    ids=["planned", "since its submission", "never below 0", "an estimate", "cancelled while it waited"],
)
def test_how_long_a_job_waited_until_it_started(changes: dict[str, Any], times: tuple[int, int]) -> None:
    named = {"submit": 900, "eligible": 940, "start": 1000}
    body = RUNNING | {f"{name}_time": {"set": True, "number": at} for name, at in named.items()}
    answered = {"jobs": [body | {"job_id": 1, "job_state": ["RUNNING"]} | changes]}
    (job,) = JobRowsReply.read(json.dumps(answered).encode()).jobs
    row = job.to_core("k8s")
    assert (row.started_s, row.waited_s) == times


def test_gpus_count_by_their_indices_where_slurm_has_no_such_tres() -> None:
    body = {"jobs": [RUNNING | {"job_id": 1, "tres_alloc_str": "cpu=4"}]}
    (job,) = JobRowsReply.read(json.dumps(body).encode()).jobs
    assert job.to_core("k8s").gpus == 3


@pytest.mark.parametrize(
    ("text", "tasks"),
    [("", 1), ("7", 1), ("1-7", 7), ("1-7%2", 7), ("0,3,6,9", 4), ("0-9:3", 4), ("1-3,9%1", 4), ("1-4,...", 4)],
)
def test_tasks_of_an_array_that_wait(text: str, tasks: int) -> None:
    body = {"jobs": [{"job_id": 1, "array_task_string": text}]}
    (job,) = JobRowsReply.read(json.dumps(body).encode()).jobs
    assert job.to_core("k8s").tasks == tasks


async def test_tasks_of_an_array_that_run_leave_fewer_to_start(slurm: Slurmrestd, client: Slurm) -> None:
    job = slurm.add_job("PENDING", comment="", array_task_string="3-9%4", array_max_tasks={"set": True, "number": 4})
    slurm.tasks[job] = [slurm.add_job(state, comment="") for state in ("RUNNING", "COMPLETED")]
    row, *_ = await client.job_rows(JobId(job), scheduler="k8s")
    assert row.waits is not None
    assert row.waits.copies == 3


async def test_partitions_come_with_their_nodes(slurm: Slurmrestd, client: Slurm) -> None:
    slurm.configured = {"low": "n[1-3]"}
    rows = {row.name: row for row in await client.partition_rows()}
    assert (rows["low"].nodes, rows["low"].tier, rows["high"].tier) == (("n1", "n2", "n3"), 1, 10)


async def test_statistics_are_numbers_of_whatever_form(slurm: Slurmrestd, client: Slurm) -> None:
    slurm.statistics = {
        "server_thread_count": 2,
        "bf_active": True,
        "req_time": {"set": True, "infinite": False, "number": 17},
        "schedule_exit": {"licenses": 4},
        "rpcs_by_message_type": [{"message_type": "REQUEST_PING", "count": 3, "total_time": 9}],
        "rpcs_by_user": [{"user": "ann", "user_id": 2, "count": 1, "total_time": 5}],
        "pending_rpcs": [],
    }
    said = await client.statistics()
    assert said.figures == {"server_thread_count": 2, "bf_active": 1, "req_time": 17, "schedule_exit.licenses": 4}
    assert said.by_type == (Rpc(name="REQUEST_PING", count=3, total_us=9),)
    assert said.by_user == (Rpc(name="ann", count=1, total_us=5),)
