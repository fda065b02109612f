import pytest

from sunkpy.core import names
from sunkpy.core.model.objects import Taint
from sunkpy.core.nodeset.protection import build_budget, decide_autoscaler_marks, decide_evictable
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod


@pytest.mark.parametrize(
    ("unschedulable", "drain", "running", "evictable"),
    [
        (True, "True", "False", True),
        (True, "True", "True", False),
        (True, "True", "Unknown", False),
        (True, "True", None, False),
        (True, "False", "False", False),
        (True, "Unknown", "False", False),
        (False, "True", "False", False),
    ],
)
def test_a_pod_may_be_evicted_from_a_cordoned_drained_and_idle_node_only(unschedulable, drain, running, evictable):
    pod = make_pod(make_nodeset(), 1, drain=drain, running=running)
    node = make_node(1, unschedulable=unschedulable)
    assert decide_evictable(node, pod) == ({names.LABEL_EVICTABLE: "true"} if evictable else {})


@pytest.mark.parametrize("running", ["True", "False"])
@pytest.mark.parametrize(
    "departing", [{"deleting": True}, {"taints": (Taint(key="karpenter.sh/disrupted", effect="NoSchedule"),)}]
)
def test_a_node_that_is_to_go_counts_as_cordoned(departing, running):
    changes = decide_evictable(make_node(1, **departing), make_pod(make_nodeset(), 1, drain="True", running=running))
    assert changes == ({names.LABEL_EVICTABLE: "true"} if running == "False" else {})


def test_the_label_goes_when_it_no_longer_holds():
    pod = make_pod(make_nodeset(), 1, drain="True")
    pod.metadata.labels[names.LABEL_EVICTABLE] = "true"
    assert decide_evictable(make_node(1), pod) == {names.LABEL_EVICTABLE: None}
    assert decide_evictable(None, pod) == {names.LABEL_EVICTABLE: None}
    assert decide_evictable(make_node(1, unschedulable=True), pod) == {}


def test_the_budget_covers_all_pods_but_the_evictable_ones():
    body = build_budget(make_nodeset())
    assert body["spec"]["minAvailable"] > 10**9
    assert body["spec"]["selector"]["matchExpressions"] == [{"key": names.LABEL_EVICTABLE, "operator": "DoesNotExist"}]
    assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-gpu"


CA, KARPENTER = names.AUTOSCALER_MARKS
OURS = {CA: "true", KARPENTER: "true", names.ANNOTATION_KEPT: f"{CA},{KARPENTER}"}
NEITHER = dict.fromkeys(OURS)
CA_IS_A_PERSONS = {CA: "true", KARPENTER: "true", names.ANNOTATION_KEPT: KARPENTER}


def marked(*, drain, running, before=None, has_jobs=False, has_pod=True):
    """The marks of a Node afterwards."""
    node = make_node(1, annotations=before)
    pod = make_pod(make_nodeset(), 1, drain=drain, running=running) if has_pod else None
    changed = {**node.annotations, **decide_autoscaler_marks(node, pod, has_jobs=has_jobs)}
    return {key: value for key, value in changed.items() if value is not None}


@pytest.mark.parametrize(
    ("drain", "running", "is_kept"),
    [
        pytest.param("False", "True", True, id="jobs run"),
        pytest.param("False", "False", True, id="open: a job could start before anybody sees it"),
        pytest.param("True", "True", True, id="closed, and its last jobs run"),
        pytest.param("True", "False", False, id="closed and idle"),
        pytest.param("True", "Unknown", True, id="closed, and nobody can tell what runs"),
        pytest.param("Unknown", "False", True, id="nobody can tell whether it is closed"),
        pytest.param(None, None, True, id="slurmd starts"),
    ],
)
@pytest.mark.parametrize("before", [{}, OURS], ids=["was not kept", "was kept"])
def test_autoscalers_are_kept_from_a_node_until_it_is_closed_and_idle(drain, running, is_kept, before):
    assert marked(drain=drain, running=running, before=before) == (OURS if is_kept else {})


@pytest.mark.parametrize("has_jobs", [True, False])
def test_a_node_without_a_slurmd_pod_is_kept_while_pods_of_jobs_are_there(has_jobs):
    assert marked(drain=None, running=None, before=OURS, has_pod=False, has_jobs=has_jobs) == (OURS if has_jobs else {})


@pytest.mark.parametrize(
    ("before", "busy", "empty"),
    [
        pytest.param({CA: "true"}, CA_IS_A_PERSONS, {CA: "true"}, id="set before sunkpy came"),
        pytest.param({KARPENTER: "false"}, {KARPENTER: "false", CA: "true", names.ANNOTATION_KEPT: CA},
                     {KARPENTER: "false"}, id="a person lets Karpenter have it"),
        pytest.param({**OURS, KARPENTER: "false"}, {KARPENTER: "false", CA: "true", names.ANNOTATION_KEPT: CA},
                     {KARPENTER: "false"}, id="a person has overwritten ours"),
        pytest.param(CA_IS_A_PERSONS, CA_IS_A_PERSONS, {CA: "true"}, id="one is a person's, one ours"),
        pytest.param({CA: "true", KARPENTER: "1h"}, {CA: "true", KARPENTER: "1h"}, {CA: "true", KARPENTER: "1h"},
                     id="both are a person's"),
    ],
)  # fmt: skip
def test_a_mark_of_a_person_is_neither_changed_nor_removed(before, busy, empty):
    assert marked(drain="False", running="True", before=before) == busy
    assert marked(drain="True", running="False", before=busy) == empty
