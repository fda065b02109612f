import pytest
from msgspec.structs import replace

from sunkpy.core import names
from sunkpy.core.model.objects import Taint, Toleration
from sunkpy.core.placement.admission import Verdict, would_kubelet_admit
from tests.unit.core.gang.pods import make_node, make_pod

ASKS_2 = make_pod(requests={"cpu": "2"})


def other(cpu, *, name="other", **fields):
    return make_pod(name, uid=name, requests={"cpu": cpu}, node="node1", **fields)


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        ([], Verdict.ADMIT),
        ([other("2")], Verdict.ADMIT),
        ([other("3")], Verdict.REFUSE),
        ([other("3", phase="Succeeded")], Verdict.ADMIT),
        ([other("3", deleting=True)], Verdict.WAIT),
        ([other("3", name="a"), other("1", name="b", deleting=True)], Verdict.REFUSE),
        ([make_pod(requests={"cpu": "4"})], Verdict.ADMIT),
    ],
)
def test_the_kubelet_counts_every_pod_that_has_not_finished(others, verdict):
    assert would_kubelet_admit(ASKS_2, make_node(), others).verdict is verdict


def test_waiting_names_the_pods_that_are_waited_for_if_they_are_of_the_same_namespace():
    going = other("3", deleting=True)
    elsewhere = [
        replace(going, metadata=replace(going.metadata, namespace="x", name=name, uid=name)) for name in ("a", "b")
    ]
    for others, whose in (([going], "pod default/other"), (elsewhere, "a pod of another namespace")):
        assert would_kubelet_admit(ASKS_2, make_node(), others).why.endswith(f" until {whose} has ended")


def test_extended_resources_and_the_number_of_pods_count():
    gpu = make_pod(requests={"nvidia.com/gpu": "1"})
    assert would_kubelet_admit(gpu, make_node(), []).verdict is Verdict.REFUSE
    assert would_kubelet_admit(gpu, make_node(**{"nvidia.com/gpu": "1"}), []).verdict is Verdict.ADMIT
    assert would_kubelet_admit(gpu, make_node(**{"nvidia.com/gpu": "1"}, pods="0"), []).verdict is Verdict.REFUSE


def test_taints_and_labels_that_changed_since_the_submit_count():
    evicting = Taint(key="sunkpy.dev/lock", value="true", effect="NoExecute")
    assert would_kubelet_admit(ASKS_2, make_node(taints=[evicting]), []).verdict is Verdict.REFUSE
    assert would_kubelet_admit(make_pod(node_selector={"a": "b"}), make_node(), []).verdict is Verdict.REFUSE


TOLERATES_CORDONS = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule")


@pytest.mark.parametrize(
    ("annotations", "tolerations", "why"),
    [
        ({}, (), "node node1 is cordoned by somebody in Kubernetes (no reason given)"),
        ({names.ANNOTATION_DRAIN: "new fan"}, (), "node node1 is cordoned by somebody in Kubernetes (new fan)"),
        (
            {names.ANNOTATION_DRAIN: "new fan", names.ANNOTATION_DRAIN_BY: "ann"},
            (),
            "node node1 is cordoned by ann (new fan)",
        ),
        (
            {names.ANNOTATION_DRAIN: "bad disk", names.ANNOTATION_CORDONED_BY: names.CORDONED_BY_SLURM},
            (),
            "node node1 is cordoned by a drain in Slurm (bad disk)",
        ),
        ({}, (TOLERATES_CORDONS,), ""),
    ],
)
def test_no_pod_is_bound_to_a_cordoned_node_unless_it_tolerates_that(annotations, tolerations, why):
    node = make_node(unschedulable=True)
    node = replace(node, metadata=replace(node.metadata, annotations=annotations))
    found = would_kubelet_admit(make_pod(tolerations=tolerations), node, [])
    assert (found.why, found.verdict) == (why, Verdict.REFUSE if why else Verdict.ADMIT)
