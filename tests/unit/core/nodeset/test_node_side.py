import pytest

from sunkpy.core import names
from sunkpy.core.model.objects import Condition
from sunkpy.core.nodeset.node_side import NodePatch, decide_node, decide_pod_cordon
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod

NODESET = make_nodeset()
TOLD = {names.ANNOTATION_SLURM_DRAIN: "bad gpu"}
OURS = {names.ANNOTATION_CORDONED_BY: "slurm", names.ANNOTATION_DRAIN: "bad gpu", **TOLD}
LIFTED = {names.ANNOTATION_CORDONED_BY: None, names.ANNOTATION_DRAIN: None, names.ANNOTATION_SLURM_DRAIN: None}
A_PERSONS = {**OURS, names.ANNOTATION_DRAIN: "new dimm"}
TAKEN_OVER = {names.ANNOTATION_CORDONED_BY: None}
FORGOTTEN = {names.ANNOTATION_SLURM_DRAIN: None}
OF_BEFORE = {names.ANNOTATION_CORDONED_BY: "slurm", names.ANNOTATION_DRAIN: "bad gpu"}


def slurm_cordon(status, reason="bad gpu"):
    return Condition(type=names.CONDITION_CORDON, status=status, message=reason)


def patch(*, slurm, unschedulable=False, annotations=None):
    node = make_node(1, unschedulable=unschedulable, annotations=annotations)
    return decide_node(node, make_pod(NODESET, 1, cordon=slurm_cordon(slurm) if slurm else None))


def cordon_changes(found):
    others = {names.ANNOTATION_PLACED_ON, names.ANNOTATION_KEPT, *names.AUTOSCALER_MARKS}
    return {key: value for key, value in found.annotations.items() if key not in others}


@pytest.mark.parametrize(
    ("slurm", "unschedulable", "annotations", "sets", "changes"),
    [
        pytest.param("True", False, {}, True, OURS, id="drained in Slurm: cordon"),
        pytest.param("True", True, OURS, None, {}, id="ours already"),
        pytest.param("True", False, OURS, True, {}, id="uncordoned by a person, still drained: again"),
        pytest.param("True", True, {}, None, TOLD, id="cordoned by somebody else: leave it theirs"),
        pytest.param("True", True, OF_BEFORE, None, TOLD, id="ours, of an operator that wrote two annotations"),
        pytest.param("True", True, A_PERSONS, None, TAKEN_OVER, id="a person's words on our cordon: theirs now"),
        pytest.param("Unknown", True, A_PERSONS, None, TAKEN_OVER, id="also while nothing is known"),
        pytest.param("False", True, A_PERSONS, None, TAKEN_OVER | FORGOTTEN, id="and when the drain ends"),
        pytest.param("False", True, TOLD, None, FORGOTTEN, id="theirs by now: not lifted"),
        pytest.param("False", False, TOLD, None, FORGOTTEN, id="remembered, and over"),
        pytest.param(None, False, TOLD, None, {}, id="remembered while nobody tells"),
        pytest.param("False", True, OURS, False, LIFTED, id="lifted in Slurm: lift ours"),
        pytest.param("False", True, {}, None, {}, id="not ours: never lifted"),
        pytest.param("False", False, OURS, None, LIFTED, id="lifted on both sides: forget"),
        pytest.param("Unknown", True, OURS, None, {}, id="unknown lifts nothing"),
        pytest.param(None, True, OURS, None, {}, id="a new pod has not reported yet"),
        pytest.param("Unknown", False, {}, None, {}, id="unknown cordons nothing"),
        pytest.param("Unknown", False, OURS, None, LIFTED, id="lifted by a person while nobody tells: forget"),
    ],
)
def test_cordons_follow_ownership(slurm, unschedulable, annotations, sets, changes):
    found = patch(slurm=slurm, unschedulable=unschedulable, annotations=annotations)
    assert found.unschedulable is sets
    assert cordon_changes(found) == changes


def test_a_new_reason_is_taken_over():
    node = make_node(1, unschedulable=True, annotations=OURS)
    found = decide_node(node, make_pod(NODESET, 1, cordon=slurm_cordon("True", "worse")))
    assert cordon_changes(found) == {names.ANNOTATION_DRAIN: "worse", names.ANNOTATION_SLURM_DRAIN: "worse"}
    assert found.unschedulable is None


def test_when_the_pod_is_gone_labels_and_conditions_go_but_our_cordon_stays():
    labels = {names.LABEL_NODESET: "gpu", names.LABEL_POD: "gpu-012-001", "other": "kept"}
    conditions = (Condition(type=names.CONDITION_DRAIN, status="True"),)
    node = make_node(1, labels=labels, unschedulable=True, annotations=OURS, conditions=conditions)
    found = decide_node(node, None)
    assert found.labels == {names.LABEL_NODESET: None, names.LABEL_POD: None}
    assert found.gone_conditions == (names.CONDITION_DRAIN,)
    assert found.unschedulable is None
    assert cordon_changes(found) == {}


def test_the_node_is_labelled_and_its_name_remembered():
    found = decide_node(make_node(1), make_pod(NODESET, 1))
    assert found.labels == {
        names.LABEL_NODESET: "gpu",
        names.LABEL_NAMESPACE: "slurm",
        names.LABEL_CLUSTER: "c1",
        names.LABEL_POD: "gpu-012-001",
    }
    assert found.annotations == {
        names.ANNOTATION_PLACED_ON: "gpu-012-001",
        **dict.fromkeys(names.AUTOSCALER_MARKS, "true"),
        names.ANNOTATION_KEPT: ",".join(names.AUTOSCALER_MARKS),
    }


def test_conditions_are_copied_and_missing_ones_unknown():
    found = decide_node(make_node(1), make_pod(NODESET, 1, running="True", drain=None))
    told = {condition.type: condition.status for condition in found.conditions}
    assert told == {
        names.CONDITION_DRAIN: "Unknown",
        names.CONDITION_CORDON: "Unknown",
        names.CONDITION_NOT_RESPONDING: "Unknown",
    }


def test_jobs_that_come_and_go_are_nothing_to_a_node():
    idle, busy = make_pod(NODESET, 1, running="False"), make_pod(NODESET, 1, running="True")
    first = decide_node(make_node(1), idle)
    node = make_node(1, labels=dict(first.labels), annotations=dict(first.annotations), conditions=first.conditions)
    assert decide_node(node, busy) == NodePatch()
    before = (*first.conditions, Condition(type=names.CONDITION_RUNNING, status="True"))
    told_before = make_node(1, labels=node.labels, annotations=node.annotations, conditions=before)
    assert decide_node(told_before, busy) == NodePatch(gone_conditions=(names.CONDITION_RUNNING,))


def test_a_node_in_line_needs_nothing():
    pod = make_pod(NODESET, 1, cordon=slurm_cordon("True"))
    first = decide_node(make_node(1), pod)
    node = make_node(
        1,
        labels=dict(first.labels),
        annotations=dict(first.annotations),
        unschedulable=True,
        conditions=first.conditions,
    )
    assert decide_node(node, pod) == NodePatch()


@pytest.mark.parametrize(
    ("unschedulable", "annotations", "before", "changes"),
    [
        (True, {}, None, {names.ANNOTATION_CORDON: "node cordoned"}),
        (True, {names.ANNOTATION_DRAIN: "new dimm"}, None, {names.ANNOTATION_CORDON: "new dimm"}),
        (True, {names.ANNOTATION_DRAIN: "new dimm"}, "new dimm", {}),
        (True, OURS, None, {}),
        (True, OURS, "old", {names.ANNOTATION_CORDON: None}),
        (False, {}, "old", {names.ANNOTATION_CORDON: None}),
        (False, {}, None, {}),
    ],
)
def test_only_cordons_of_others_are_told_to_the_pod(unschedulable, annotations, before, changes):
    pod = make_pod(NODESET, 1, annotations={names.ANNOTATION_CORDON: before} if before else None)
    node = make_node(1, unschedulable=unschedulable, annotations=annotations)
    assert decide_pod_cordon(node, pod) == changes


def test_a_node_that_cannot_be_seen_changes_nothing():
    pod = make_pod(NODESET, 1, annotations={names.ANNOTATION_CORDON: "old"})
    assert decide_pod_cordon(None, pod) == {}


@pytest.mark.parametrize(
    ("unschedulable", "reason", "deleting", "noted"),
    [
        pytest.param(True, "EvictionByEvictionAPI", True, True, id="evicted from a cordoned Node"),
        pytest.param(True, "EvictionByEvictionAPI", False, False, id="the eviction was refused"),
        pytest.param(True, "DeletionByPodGC", True, False, id="went for another cause"),
        pytest.param(False, "EvictionByEvictionAPI", True, False, id="evicted from an open Node"),
    ],
)
def test_an_evicted_slurmd_pod_is_remembered_with_the_cordon(unschedulable, reason, deleting, noted):
    target = Condition(type="DisruptionTarget", status="True", reason=reason)
    pod = make_pod(NODESET, 1, deleting=deleting, cordon=target)
    found = decide_node(make_node(1, unschedulable=unschedulable), pod)
    assert found.annotations.get(names.ANNOTATION_EMPTIED) == ("evicted" if noted else None)


def test_with_the_cordon_the_memory_of_the_eviction_goes():
    note = {names.ANNOTATION_EMPTIED: "evicted"}
    assert decide_node(make_node(1, annotations=note), None).annotations == {names.ANNOTATION_EMPTIED: None}
    assert decide_node(make_node(1, annotations=note, unschedulable=True), None).annotations == {}
