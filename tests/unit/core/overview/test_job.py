"""Jobs of either door in words, as in their files. One that is not there is written, to be looked at."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sunkpy.core.explain.explanation import render
from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.overview.job import JobFacts, explain_job
from sunkpy.core.overview.queue import QueuedJob
from sunkpy.core.overview.sight import Sight
from tests.unit.core.explain.golden_file import written
from tests.unit.core.overview.test_pool import FACTS, GROWS

GOLDEN = Path(__file__).parent / "golden_jobs"
OF_PODS = "k8s:team/train:uid"


def job(id, *state, reason="", user="ann", comment="", priority=100, gpus=16, **fields):
    row = JobRow(
        id=id,
        state=frozenset(state),
        reason=reason,
        user=user,
        account="chem",
        partition=fields.pop("partition", "low"),
        comment=comment,
        min_nodes=2,
        **{key: fields.pop(key) for key in ("nodes", "tasks") if key in fields},
    )
    return QueuedJob(
        row=row, name="train", qos="normal", priority=priority, gpus=gpus, submitted_s=1_795_000_000, **fields
    )


def having(id, user, *nodes, partition="high", comment=""):
    return job(id, "RUNNING", user=user, nodes=nodes, partition=partition, comment=comment)


def facts(*jobs, **pool):
    known = {"tiers": {"low": 1, "high": 10}, "partitions": {"low": "n[1-3]", "high": "n[1-3]"}}
    return JobFacts(id=7, pool=msgspec.structs.replace(FACTS, jobs=(*FACTS.jobs, *jobs), **known | pool), now_s=1e9)


def seen_by(sight, known):
    return msgspec.structs.replace(known, sight=sight)


WAITS = job(7, "PENDING", reason="Resources", starts_s=1_795_000_600)
SITUATIONS = {
    "waits-for-nodes": facts(WAITS, having(20, "bob", "n1", "n2"), having(21, "k8s", "n2", comment=OF_PODS)),
    "lacks-nodes": facts(WAITS, nodesets=(GROWS,)),
    "waits-for-its-turn": facts(
        job(7, "PENDING", reason="Priority"),
        *(job(number, "PENDING", reason="Priority", priority=200, user="bob") for number in range(30, 37)),
    ),
    "waits-for-a-limit": facts(job(7, "PENDING", reason="AssocGrpCpuLimit")),
    "array": facts(job(7, "PENDING", reason="Priority", tasks=40, gpus=0)),
    "held": facts(job(7, "PENDING", reason="JobHeldUser", priority=0)),
    "never-starts": facts(job(7, "PENDING", reason="PartitionNodeLimit")),
    "larger-than-its-partition": facts(job(7, "PENDING", reason="PartitionConfig")),
    "pods-never-start": facts(job(7, "PENDING", reason="QOSNotAllowed", user="k8s", comment=OF_PODS)),
    "pods-wait": facts(job(7, "PENDING", reason="Resources", user="k8s", comment=OF_PODS)),
    "names-a-drained-node": facts(job(7, "PENDING", reason="ReqNodeNotAvail", required_nodes=("n1", "n3"))),
    "several-partitions": facts(job(7, "PENDING", reason="Resources", partition="low,high")),
    "runs": facts(job(7, "RUNNING", nodes=("n1", "n2"))),
    "in-its-prolog": facts(job(7, "RUNNING", reason="Prolog", nodes=("n1", "n2"))),
    "completing": facts(job(7, "COMPLETING", "COMPLETED", nodes=("n1",))),
    "ended": facts(job(7, "FAILED", reason="NonZeroExitCode", nodes=("n1",), exit_code=2)),
    "completed": facts(job(7, "COMPLETED", nodes=("n1",))),
    "output-not-writable": facts(
        job(7, "FAILED", reason="RaisedSignal", said="RaisedSignal:53(Real-time signal 19)", nodes=("n1",), signal=53)
    ),
    "out-of-memory": facts(job(7, "OUT_OF_MEMORY", reason="OutOfMemory", nodes=("n1",), signal=125)),
    "node-lost": facts(job(7, "NODE_FAIL", nodes=("n1", "n2"))),
    "pods-ended": facts(job(7, "TIMEOUT", reason="TimeLimit", user="k8s", comment=OF_PODS, nodes=("n1",))),
    "prolog-failed": facts(job(7, "PENDING", reason="JobHeldUser", priority=0, said="launch failed requeued held")),
    "preempted": facts(job(7, "PREEMPTED", nodes=("n1", "n2")), having(20, "bob", "n1", "n2")),
    "unknown": facts(),
    "slurm-not-asked": JobFacts(
        id=7, pool=msgspec.structs.replace(FACTS, jobs=None, slurm_nodes=None, unread=("Slurm's side: not asked",))
    ),
    "pods-of-others": seen_by(
        Sight(namespaces=frozenset({"other"})),
        facts(
            job(7, "PENDING", reason="Resources", user="k8s", comment=OF_PODS),
            job(8, "PENDING", reason="Resources", user="k8s", comment="k8s:other/web:uid", priority=200),
            job(9, "PENDING", reason="Resources", user="k8s", comment="k8s:team/hush:uid", priority=200),
            having(20, "k8s", "n1", comment=OF_PODS),
        ),
    ),
    "own-job-of-a-user": seen_by(Sight(user="ann"), facts(WAITS, having(20, "bob", "n1", "n2"))),
    "odd-name": facts(msgspec.structs.replace(WAITS, name="\x1b[2Jboo")),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_job_is_explained(name):
    file, text = GOLDEN / f"{name}.txt", f"{render(explain_job(SITUATIONS[name]))}\n"
    assert text == written(file, text)


def test_each_file_stands_for_a_situation():
    assert {file.stem for file in GOLDEN.iterdir()} == set(SITUATIONS)


def test_of_a_job_array_what_waits_is_explained():
    started, waits = job(7, "RUNNING", nodes=("n1",)), job(7, "PENDING", reason="Priority", tasks=9)
    assert explain_job(facts(started, waits)).standing == "waits in the queue"


def test_where_the_nodes_of_a_partition_are_not_known_all_count():
    assert "partition low: 3 nodes" in render(explain_job(facts(WAITS, partitions={})))
