import msgspec
import pytest

from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.model.events import Event
from sunkpy.core.model.times import parse_rfc3339
from sunkpy.core.overview.pool import NodeLine, Standing
from sunkpy.core.overview.queue import QueuedJob
from sunkpy.core.page.delta import diff_tables
from sunkpy.core.page.rows import CHANGES, HEAD, NODES, RUNNING, WAITING, Joint, joint_of
from sunkpy.core.page.tables import PageFacts, build_tables, namespaces_in
from tests.unit.core.overview.test_pool import FACTS

NOW = parse_rfc3339("2026-11-20T12:00:00Z")


def event(reason, *, kind="Node", name="node-3", at="2026-11-20T11:30:00Z", by="operator", **fields):
    about = {"kind": kind, "name": name, "namespace": fields.pop("namespace", "")}
    body = {"metadata": {"name": "e", "uid": f"uid-{reason}"}, "involvedObject": about, "reason": reason}
    return msgspec.convert(body | {"eventTime": at, "reportingComponent": f"sunkpy.dev/{by}"} | fields, Event)


def waiting(id, priority, comment="", name="train"):
    row = JobRow(id=id, state=frozenset({"PENDING"}), reason="Priority", user="ann", partition="low", comment=comment)
    return QueuedJob(row=row, name=name, priority=priority, submitted_s=int(NOW.timestamp()) - 60)


def facts(*, jobs=(), pods=(), events=()):
    pool = msgspec.structs.replace(FACTS, jobs=(*FACTS.jobs, *jobs), pods=(*FACTS.pods, *pods))
    return PageFacts(pool=pool, events=tuple(events), now=NOW)


def test_a_node_stands_at_both_doors_and_says_who_holds_it():
    nodes = build_tables(facts())[NODES]
    assert {name: row.joint for name, row in nodes.items()} == {
        "node-1": Joint.BUSY, "node-2": Joint.BOTH, "node-3": Joint.DRAINED,
    }  # fmt: skip
    assert (nodes["node-2"].given, nodes["node-2"].gpus, nodes["node-2"].pods) == (3, 8, ("team/web",))
    assert [node.is_closed for node in nodes.values()] == [False, False, True]
    assert [hold.lifted_by for hold in nodes["node-3"].holds][:1] == ["kubectl uncordon node-3"]


@pytest.mark.parametrize(
    ("standing", "jobs", "pods", "joint"),
    [
        (Standing.DOWN, (1,), (), Joint.DOWN),
        (Standing.DRAINED, (), (), Joint.DRAINED),
        (Standing.DRAINED, (), ("a/b",), Joint.DRAINING),
        (Standing.BUSY, (), (), Joint.BUSY),
        (Standing.BUSY, (1,), ("a/b",), Joint.BOTH),
        (Standing.READY, (), ("a/b",), Joint.PODS),
        (Standing.READY, (), (), Joint.FREE),
    ],
)
def test_the_joint_state_is_the_first_that_holds(standing, jobs, pods, joint):
    assert joint_of(NodeLine(node="n", slurm_node="n", slurm="", standing=standing, jobs=jobs, pods=pods)) is joint


def test_both_doors_wait_in_slurms_order_and_what_runs_is_beside():
    tables = build_tables(facts(jobs=(waiting(20, 5), waiting(21, 9, "k8s:team/later:u"))))
    assert [(key, row.door, row.name) for key, row in tables[WAITING].items()] == [
        ("21", "Kubernetes", "team/later"), ("20", "Slurm", "train"),
    ]  # fmt: skip
    assert {key: (row.pods, row.name, row.nodes) for key, row in tables[RUNNING].items()} == {
        "12": (False, "", "n[1-2]"), "13": (True, "team/web", "n2"),
    }  # fmt: skip
    assert tables[HEAD][""].headline.endswith("waiting: 1 at Slurm and 1 at Kubernetes")


def test_nobody_behind_a_job_that_starts_has_changed():
    before = build_tables(facts(jobs=(waiting(20, 9), waiting(21, 5), waiting(22, 1))))
    change = diff_tables(before, build_tables(facts(jobs=(waiting(21, 5), waiting(22, 1)))))[WAITING]
    assert (change.set, change.gone, change.order) == ((), ("20",), ())


def test_the_last_hour_is_told_without_what_is_said_of_each_pod():
    events = [
        event("SlurmCordon", at="2026-11-20T10:59:00Z"),
        event("SlurmUncordon"),
        event("Scheduled", kind="Pod", by="scheduler"),
        event("PreemptionByScheduler", kind="Pod", by="scheduler"),
        event("OwnerUnknown", kind="Pod", name="web", namespace="team", by="scheduler", type="Warning"),
        event("PodsCreated", kind="NodeSet", name="gpu", at="no time"),
    ]
    found = build_tables(facts(events=events))[CHANGES].values()
    assert [(row.what, row.namespace, row.is_warning) for row in found] == [
        ("SlurmUncordon", "", False), ("OwnerUnknown", "team", True),
    ]  # fmt: skip


def test_the_namespaces_of_all_pods_that_are_named_are_known():
    gone = {"kind": "Pod", "name": "gone", "by": "scheduler"}
    events = [
        event("OwnerUnknown", namespace="third", **gone),
        event("PreemptionByScheduler", namespace="fourth", **gone),
    ]
    tables = build_tables(facts(jobs=(waiting(20, 5), waiting(21, 9, "k8s:other/later:u")), events=events))
    assert namespaces_in(tables) == {"team", "other", "third", "fourth"}
