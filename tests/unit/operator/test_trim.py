"""What is kept is enough: nothing is decided otherwise than on the whole objects."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.model.matching import pod_requests
from sunkpy.core.model.objects import Condition, Meta, Node, OwnerReference, Pod
from sunkpy.core.nodeset.node_side import decide_node, decide_pod_cordon
from sunkpy.core.nodeset.protection import decide_evictable
from sunkpy.core.nodeset.slurmd_pod import build_pod, node_of
from sunkpy.core.nodeset.verdict import judge
from sunkpy.core.nodeset.wanted import Wanted
from sunkpy.kube.trim import trim_node
from sunkpy.operator.trim import is_heartbeat, trim_pod
from tests.unit.core.health.build import NODES, PODS, step
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod
from tests.unit.core.nodeset.test_survey import nodesets, views

NODE = make_node(
    1,
    labels={"pool": "gpu"},
    annotations={"csi": "x" * 100, names.ANNOTATION_DRAIN: "fan", names.ANNOTATION_KEPT_BY_KARPENTER: "false"},
    conditions=(Condition(type="DiskPressure", status="False"), Condition(type=names.CONDITION_DRAIN, status="True")),
)
WEB = msgspec.convert(
    {
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}, "annotations": {"a": "b"}},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "web", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}}],
            "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}],
            "overhead": {"cpu": "250m"},
            "tolerations": [{"operator": "Exists"}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    },
    Pod,
)


def test_of_a_node_what_nobody_reads_is_left_out():
    kept = trim_node(NODE)
    assert kept.annotations == {names.ANNOTATION_DRAIN: "fan", names.ANNOTATION_KEPT_BY_KARPENTER: "false"}
    assert [condition.type for condition in kept.status.conditions] == ["Ready", names.CONDITION_DRAIN]
    assert kept.labels == NODE.labels


def test_a_pod_of_others_takes_the_same_room_and_is_nothing_else():
    kept = trim_pod(WEB)
    assert pod_requests(kept.spec) == pod_requests(WEB.spec)
    assert (kept.spec.node_name, kept.is_finished, kept.key) == ("n1", False, WEB.key)
    assert (kept.labels, kept.annotations, kept.spec.tolerations) == ({}, {}, ())


def test_of_the_annotations_of_others_only_the_job_is_kept():
    noted = msgspec.structs.replace(
        WEB, metadata=Meta(name="web", annotations={"a": "b", names.ANNOTATION_JOB_ID: "7"})
    )
    assert trim_pod(noted).annotations == {names.ANNOTATION_JOB_ID: "7"}


def test_pods_that_ask_the_same_share_what_says_so():
    other = msgspec.structs.replace(WEB, metadata=Meta(name="web-2", namespace="default"))
    assert trim_pod(other).spec.containers[0] is trim_pod(WEB).spec.containers[0]


def test_a_slurmd_pod_that_waits_for_its_scheduler_keeps_the_node_that_it_is_pinned_to():
    assert node_of(trim_pod(make_pod(make_nodeset(), 1, bound=False))) == "n1"


def test_a_pod_is_built_the_same_for_what_is_kept_of_its_node():
    assert build_pod(make_nodeset(), trim_node(NODE), "gpu-1") == build_pod(make_nodeset(), NODE, "gpu-1")


def seen(node: Node | None, pods: list[Pod]):
    """What is decided about a Node and its slurmd pod."""
    pod = pods[0] if pods else None
    patch = decide_node(node, pod) if node is not None else None
    if pod is None:
        return patch, None
    undated = tuple(msgspec.structs.replace(c, last_transition_time=None) for c in patch.conditions) if patch else ()
    return undated, patch and patch.annotations, decide_pod_cordon(node, pod), decide_evictable(node, pod)


@settings(max_examples=60)
@given(nodesets().flatmap(lambda nodeset: st.tuples(st.just(nodeset), views(nodeset))))
def test_nothing_is_decided_otherwise(drawn):
    nodeset, view = drawn
    kept = msgspec.structs.replace(
        view,
        node=trim_node(view.node) if view.node is not None else None,
        slurmd_pods=[trim_pod(pod) for pod in view.slurmd_pods],
        occupants=[trim_pod(pod) for pod in view.occupants],
    )
    wanted = Wanted.read(nodeset)
    whole, part = judge(wanted, view), judge(wanted, kept)
    assert (part.fits, part.exclusion, part.foreign_names) == (whole.fits, whole.exclusion, whole.foreign_names)
    assert [(j.pod.uid, j.traits, j.order) for j in part.pods] == [(j.pod.uid, j.traits, j.order) for j in whole.pods]
    assert seen(kept.node, kept.slurmd_pods) == seen(view.node, view.slurmd_pods)


@given(NODES, PODS)
def test_no_step_of_health_is_decided_otherwise(at, on):
    kept = trim_node(at, signals={"KernelDeadlock"}), trim_pod(on) if on is not None else None
    assert step(*kept) == step(at, on)
    assert step(kept[0], kept[1], after_s=100) == step(at, on, after_s=100)


def test_whose_pod_it_is_is_kept():
    nodeset = make_nodeset()
    assert nodeset.owns(trim_pod(make_pod(nodeset, 1)))
    assert trim_pod(make_pod(nodeset, 1)).metadata.owner_references[0] == OwnerReference(
        api_version="sunkpy.dev/v1alpha1", kind="NodeSet", name="gpu", uid=nodeset.uid, controller=True
    )


def test_a_heartbeat_changes_nothing_that_is_read():
    def seen(node: Node, version: str) -> Node:
        return trim_node(
            msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, resource_version=version))
        )

    beat = msgspec.structs.replace(
        NODE,
        status=msgspec.structs.replace(
            NODE.status, conditions=(*NODE.status.conditions, Condition(type="PIDPressure", status="False"))
        ),
    )
    assert is_heartbeat(seen(NODE, "1"), seen(beat, "2"))
    assert not is_heartbeat(seen(NODE, "1"), seen(make_node(1, unschedulable=True), "2"))
    assert not is_heartbeat(seen(NODE, "1"), seen(make_node(1, labels={"pool": "gpu"}), "2"))
    assert not is_heartbeat(seen(make_node(1), "1"), seen(make_node(1, ready=False), "2"))
