import pytest

from sunkpy.core import names
from sunkpy.core.model.objects import Taint
from sunkpy.core.nodeset.protection import build_budget, decide_evictable
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
