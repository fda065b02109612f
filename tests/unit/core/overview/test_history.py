import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.health import State
from sunkpy.core.model.events import Event
from sunkpy.core.model.objects import Condition, Meta, NodeStatus, Taint
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.overview.history import NodePast, find_history, history_table, without_texts_of_others
from tests.unit.core.health.build import CHECK_FAILED, NOW, pod, record, stepped
from tests.unit.core.health.build import node as sick
from tests.unit.core.overview.test_pool import node, slurmd

EVENT = {
    "metadata": {"name": "e", "creationTimestamp": "2026-11-20T09:00:00Z"},
    "involvedObject": {"kind": "Node", "name": "node-1"},
    "reason": "SlurmCordon",
    "message": "bad fan",
}


def event(**fields):
    return msgspec.convert(EVENT | fields, Event)


@pytest.mark.parametrize(
    ("fields", "at", "times", "by"),
    [
        ({}, "2026-11-20T09:00:00Z", 1, ""),
        (
            {"eventTime": "2026-11-20T09:00:00.5Z", "reportingComponent": "sunkpy.dev/operator"},
            "2026-11-20T09:00:00.5Z", 1, "sunkpy.dev/operator",
        ),
        (
            {"lastTimestamp": "2026-11-20T10:00:00Z", "count": 3, "source": {"component": "kubelet"}},
            "2026-11-20T10:00:00Z", 3, "kubelet",
        ),
        (
            {
                "eventTime": "2026-11-20T09:00:00Z",
                "series": {"count": 7, "lastObservedTime": "2026-11-20T11:00:00Z"},
            },
            "2026-11-20T11:00:00Z", 7, "",
        ),
    ],
)  # fmt: skip
def test_events_of_both_forms_say_when_how_often_and_by_whom(fields, at, times, by):
    found = event(**fields)
    assert (found.at, found.times, found.by) == (at, times, by)


def past(**fields):
    status = NodeStatus(
        conditions=(
            Condition(type="Ready", status="True", reason="KubeletReady", last_transition_time="2026-11-19T00:00:00Z"),
            Condition(type="example.com/Other", status="True", last_transition_time="2026-11-19T00:00:00Z"),
        )
    )
    taint = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule", time_added="2026-11-21T00:00:00Z")
    meta = Meta(name="node-1", creation_timestamp="2026-11-18T00:00:00Z")
    own = msgspec.structs.replace(
        node(1), metadata=meta, status=status, spec=msgspec.structs.replace(node(1).spec, taints=(taint,))
    )
    slurm = SlurmNode(
        name="n1", state=frozenset({"IDLE", "DRAIN"}), reason="bad fan", reason_by="ann", reason_since_s=1_795_210_000,
        slurmd_since_s=1_795_200_000,
    )  # fmt: skip
    pod = msgspec.structs.replace(
        slurmd(1), metadata=msgspec.structs.replace(slurmd(1).metadata, creation_timestamp="2026-11-18T01:00:00Z")
    )
    known = {"name": "node-1", "slurm_name": "n1", "node": own, "pod": pod, "slurm": slurm, "events": (event(),)}
    return NodePast(**(known | fields))


def test_all_sides_stand_in_the_order_of_time():
    found = find_history(past())
    assert [(each.side, each.by, each.what) for each in found.happenings] == [
        ("Kubernetes", "", "Node joined"),
        ("Kubernetes", "", "slurmd pod gpu-1 was made"),
        ("Kubernetes", "", "Node is Ready=True"),
        ("Kubernetes", "", "Event SlurmCordon"),
        ("Slurm", "", "the registered slurmd started"),
        ("Slurm", "ann", "reason 'bad fan', now IDLE+DRAIN"),
        ("Kubernetes", "", "taint node.kubernetes.io/unschedulable:NoSchedule"),
    ]
    assert [each.at for each in found.happenings] == sorted(each.at for each in found.happenings)


def test_the_steps_of_a_nodes_health_are_kept():
    back = record(State.SUSPECT, "label").moved(State.CLOSING, NOW).returned(NOW, why="cured: the signal has ended")
    sick = past().node
    noted = msgspec.structs.replace(sick.metadata, annotations={names.ANNOTATION_HEALTH: back.encode()})
    found = find_history(past(node=msgspec.structs.replace(sick, metadata=noted)))
    assert [(each.at, each.what, each.text) for each in found.happenings if each.side == "sunkpy"] == [
        ("2026-11-28T12:00:00Z", "health: closing", "evidence"),
        ("2026-11-28T12:00:00Z", "health: well", "cured: the signal has ended"),
    ]
    assert (
        "sunkpy keeps the last twelve steps of the node's health, for a week after the node has come back."
        in found.unknown
    )


def test_the_log_of_a_check_that_failed_is_shown_a_row_for_each_line():
    at = stepped(sick(), pod(check_s=600, restarts=1, words=CHECK_FAILED))
    found = find_history(past(node=at))
    assert [(each.what, each.text) for each in found.happenings if each.side == "sunkpy"] == [
        ("health: needs-a-person", "the check of the machine failed"),
        ("log of the check that failed", "looking"),
        ("log of the check that failed", "link mlx5_3 is down"),
    ]


def test_what_cannot_be_known_is_said():
    assert find_history(past()).unknown == (
        "Kubernetes keeps Events for an hour (--event-ttl of the apiserver), and only the last change of a condition.",
        "Kubernetes does not record who cordoned a Node; its audit log does, if there is one.",
        "Slurm keeps only the last reason of a node. Earlier drains and failures are in its accounting: "
        "sacctmgr show event nodes=n1; jobs that ran there: sacct -N n1.",
    )
    assert find_history(past(slurm=None)).unknown[-1] == "Slurm was not asked, did not answer, or has no such node."


def test_a_time_that_cannot_be_read_comes_first_and_breaks_nothing():
    found = find_history(past(events=(event(eventTime="soon"),)))
    assert found.happenings[0].at == "soon"


def test_what_happened_often_is_one_row():
    rows = history_table(find_history(past(events=(event(count=3),)))).rows
    assert ("2026-11-20T09:00:00Z", "Kubernetes", "", "Event SlurmCordon (×3)", "Node node-1: bad fan") in rows


@pytest.mark.parametrize(
    ("kind", "by", "text"),
    [
        ("Node", "karpenter", "Node node-1: not shown"),
        ("Node", "", "Node node-1: not shown"),
        ("Node", "sunkpy.dev/operator", "Node node-1: bad fan"),
        ("Pod", "kubelet", "Pod node-1: bad fan"),
    ],
)
def test_who_may_not_see_all_pods_reads_of_the_node_what_sunkpy_wrote(kind, by, text):
    told = event(involvedObject={"kind": kind, "name": "node-1"}, reportingComponent=by)
    found = find_history(without_texts_of_others(past(events=(told,))))
    assert [each.text for each in found.happenings if each.what == "Event SlurmCordon"] == [text]


def test_of_a_node_of_which_nothing_is_known_nothing_is_told():
    assert find_history(NodePast(name="node-9")).happenings == ()
