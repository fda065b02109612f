import msgspec
import pytest

from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.gang.decide.queued import NEVER_STARTS
from sunkpy.core.model.objects import Condition, Meta, Pod, PodSpec, PodStatus, SchedulingGate
from sunkpy.core.overview.queue import QueuedJob, find_queue, queue_table, waiting_table, words_for

NOW_S = 1_795_000_000
PENDING = frozenset({"PENDING"})


def job(id, *, state=PENDING, priority=1, partition="low", reason="Priority", comment="", **fields):
    row = JobRow(id=id, state=state, reason=reason, user="ann", partition=partition, min_nodes=1, comment=comment)
    return QueuedJob(row=row, name=f"job-{id}", priority=priority, **fields)


def pod(name, message="", *, job_id="", gates=(), node="", **meta):
    said = Condition(type="PodScheduled", status="False", reason="WaitingForSlurm", message=message)
    annotations = {"sunkpy.dev/job-id": job_id} if job_id else {}
    metadata = Meta(
        name=name, namespace="team", uid=f"uid-{name}", annotations=annotations,
        creation_timestamp="2026-11-24T01:00:00Z", **meta,
    )  # fmt: skip
    return Pod(
        metadata=metadata,
        spec=PodSpec(scheduler_name="slurm", node_name=node, scheduling_gates=tuple(map(_gate, gates))),
        status=PodStatus(conditions=(said,) if message else ()),
    )


def _gate(name):
    return SchedulingGate(name=name)


def ids(found):
    return [each.job for each in found]


def test_the_tier_of_the_partition_goes_before_priority_and_that_before_age():
    jobs = [job(4), job(3), job(2, priority=9), job(7, partition="high"), job(5, priority=0, reason="JobHeldUser")]
    found = find_queue(jobs, [], {"low": 1, "high": 10}, NOW_S)
    assert ids(found) == [7, 2, 3, 4, 5]
    assert [each.place for each in found] == [1, 2, 3, 4, 5]


def test_of_several_partitions_the_best_counts():
    found = find_queue([job(1, partition="low"), job(2, partition="low,high")], [], {"low": 1, "high": 10}, NOW_S)
    assert ids(found) == [2, 1]


def test_what_does_not_wait_is_left_out():
    states = ({"RUNNING"}, {"COMPLETED"}, {"RUNNING", "COMPLETING"}, {"SUSPENDED"})
    assert find_queue([job(n, state=frozenset(each)) for n, each in enumerate(states)], [], {}, NOW_S) == ()


def test_the_job_of_pods_waits_at_kubernetes_door_under_the_name_of_its_gang():
    pods = [pod("web-0", job_id="7"), pod("web-1", job_id="7")]
    (found,) = find_queue([job(7, comment="k8s:team/web:uid hello")], pods, {}, NOW_S)
    assert (found.door, found.name, found.job) == ("Kubernetes", "team/web", 7)


def test_pods_without_a_job_of_slurm_come_last_with_the_words_of_the_scheduler():
    message = "none of 3 Slurm nodes fits: 3 lack nvidia.com/gpu"
    pods = [pod("odd", message), pod("new"), pod("gated", gates=["kueue.x-k8s.io/admission"]), pod("runs", node="n1")]
    found = find_queue([job(7)], pods, {}, NOW_S)
    assert [(each.place, each.name, each.waits_for) for each in found[1:]] == [
        (0, "team/odd", message),
        (0, "team/new", "the scheduler has not seen it yet"),
        (0, "team/gated", "scheduling gate kueue.x-k8s.io/admission"),
    ]


def test_a_pod_whose_job_slurm_has_is_not_listed_twice():
    running = job(7, state=frozenset({"RUNNING"}), comment="k8s:team/web:uid")
    assert find_queue([running], [pod("web", job_id="7")], {}, NOW_S) == ()


def test_without_slurm_pods_of_one_job_are_one_with_the_reason_that_the_scheduler_wrote():
    pods = [pod(f"web-{n}", "Slurm job 7 waits: Resources", job_id="7") for n in range(3)]
    (found,) = find_queue(None, pods, {}, NOW_S)
    assert (found.job, found.place, found.name) == (7, 0, "team/web-0 and 2 other pods")
    assert (found.slurm_reason, found.waits_for) == ("Resources", "the nodes that it may use are taken")


def test_only_a_start_in_the_future_is_an_estimate():
    soon, past = find_queue([job(1, starts_s=NOW_S + 600), job(2, starts_s=NOW_S - 1)], [], {}, NOW_S)
    assert (soon.starts, past.starts) == ("2026-11-18T11:16:40Z", "")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Resources", "the nodes that it may use are taken"),
        ("AssocGrpGRES", "a limit of its account or QoS is reached"),
        ("", "Slurm has not looked at it yet"),
        ("BurstBufferOperation", "BurstBufferOperation"),
        (
            "PartitionTimeLimit",
            "the time limit is above that of the partition: starts only if somebody changes it",
        ),
    ],
)
def test_each_reason_is_said_in_plain_words(reason, words):
    assert words_for(reason) == words


@pytest.mark.parametrize("reason", NEVER_STARTS)
def test_what_never_starts_is_marked(reason):
    (found,) = find_queue([job(1, reason=reason)], [], {}, NOW_S)
    assert found.never_starts
    assert "the pod" not in found.waits_for, "it may be a person's job"


def test_a_row_of_each_and_a_count_of_each_reason():
    row = msgspec.structs.replace(job(9).row, tasks=4)
    found = find_queue([msgspec.structs.replace(job(9), row=row), job(10)], [pod("new")], {}, NOW_S)
    table = queue_table(found)
    assert table.rows[0][:5] == ("1", "Slurm", "9 ×4", "job-9", "ann")
    assert table.rows[2][:4] == ("", "Kubernetes", "", "team/new")
    assert waiting_table(found).rows == (
        ("Slurm", "2", "other jobs come first"),
        ("Kubernetes", "1", "the scheduler has not seen it yet"),
    )
