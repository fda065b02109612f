from sunkpy.core import names
from sunkpy.core.model.growth import GrowthStatus
from sunkpy.core.model.objects import Condition
from sunkpy.core.nodeset.node_side import NodePatch
from sunkpy.core.nodeset.spec import NodeSetStatus
from sunkpy.operator import bodies
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod

NOW = "2026-11-20T12:00:00Z"


def test_a_pod_is_named_by_its_uid_and_if_asked_by_its_version():
    pod = make_pod(make_nodeset(), 1)
    assert bodies.pod_metadata(pod, annotations={"a": None}, as_seen=False) == {
        "metadata": {"uid": pod.uid, "annotations": {"a": None}}
    }
    assert "resourceVersion" in bodies.pod_metadata(pod, labels={"a": "b"}, as_seen=True)["metadata"]


def test_a_cordon_is_written_only_on_the_node_as_it_was_seen():
    body = bodies.node_object(make_node(1), NodePatch(unschedulable=True))
    assert body == {"metadata": {"uid": "node-uid-1", "resourceVersion": ""}, "spec": {"unschedulable": True}}
    assert "spec" not in bodies.node_object(make_node(1), NodePatch(labels={"a": "b"}))


def test_the_operator_writes_nothing_that_is_the_syncers():
    assert "growth" not in bodies.nodeset_status(NodeSetStatus(growth=GrowthStatus(wanted_nodes=3)))["status"]


def test_a_nodes_condition_keeps_its_time_while_its_status_lasts():
    old = Condition(type=names.CONDITION_DRAIN, status="True", last_transition_time="2026-01-01T00:00:00Z")
    node = make_node(1, conditions=(old,))
    patch = NodePatch(
        conditions=(
            Condition(type=names.CONDITION_DRAIN, status="True", reason="Drained"),
            Condition(type=names.CONDITION_CORDON, status="True"),
        ),
        gone_conditions=(names.CONDITION_RUNNING,),
    )
    told = bodies.node_status(node, patch, NOW)["status"]["conditions"]
    assert [(entry["type"], entry.get("lastTransitionTime")) for entry in told] == [
        (names.CONDITION_DRAIN, "2026-01-01T00:00:00Z"),
        (names.CONDITION_CORDON, NOW),
        (names.CONDITION_RUNNING, None),
    ]
    assert told[-1]["$patch"] == "delete"
    assert all(entry["lastHeartbeatTime"] == NOW for entry in told[:2])
