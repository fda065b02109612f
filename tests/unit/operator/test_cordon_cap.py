from sunkpy.core import names
from sunkpy.core.model.objects import Condition
from sunkpy.core.nodeset.node_mark import DrainPolicy
from sunkpy.operator.cordon_cap import CordonCap
from sunkpy.operator.settings import SlurmDrainSettings
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod

OURS = {names.ANNOTATION_CORDONED_BY: "slurm"}


def pool(size, *, cordoned=0):
    labels = {names.LABEL_CLUSTER: "c1"}
    return [
        make_node(n, labels=labels, unschedulable=n < cordoned, annotations=OURS if n < cordoned else {})
        for n in range(size)
    ]


def rooms(nodes, *, percent=20):
    """Whether each Node may be cordoned, if all are drained in Slurm and the cap is asked about one after the other."""
    cordon_cap = CordonCap(SlurmDrainSettings(policy=DrainPolicy.CORDON, max_percent=percent))
    for node in nodes:
        cordon_cap.node_changed(None, node)
    drained = Condition(type=names.CONDITION_CORDON, status="True", message="all")
    found = []
    for number, node in enumerate(nodes):
        pod = make_pod(make_nodeset(), number, cordon=drained)
        has_room = cordon_cap.marking(node, pod).has_room
        if has_room:
            cordon_cap.note(node, pod)
        found.append(has_room)
    return found


def test_a_drain_of_all_nodes_cordons_a_fifth_of_them_though_the_watch_shows_none_yet():
    assert sum(rooms(pool(40))) == 8


def test_three_may_be_cordoned_in_a_small_pool():
    assert sum(rooms(pool(6))) == 3


def test_what_is_cordoned_already_counts():
    assert rooms(pool(10, cordoned=3))[3:] == [False] * 7


def test_a_person_may_raise_the_cap():
    assert sum(rooms(pool(40), percent=100)) == 40


def test_a_node_that_is_not_labelled_yet_or_any_more_counts_too():
    assert sum(rooms([make_node(n) for n in range(6)])) == 3
    left = [make_node(n, unschedulable=True, annotations=OURS) for n in range(90, 93)]
    assert rooms([*left, *pool(5)])[3:] == [False] * 5
