import pytest

from sunkpy.core.model.objects import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    SelectorRequirement,
    Taint,
    Toleration,
)
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.placement.eligibility import Candidate, eligible_nodes, excluded, explain_eligibility, without
from tests.unit.core.gang.pods import make_node, make_pod

GPUS = {"nvidia.com/gpu": "gpu"}
LOCKED = Taint(key="team", value="a", effect="NoSchedule")


def judge(pod, *nodes, slurm=None):
    candidates = [Candidate(slurm_node=f"s-{node.name}", node=node, slurm=slurm) for node in nodes]
    return eligible_nodes(pod.spec, candidates, gpu_resources=GPUS)


def affinity(operator, *values):
    line = SelectorRequirement(key="zone", operator=operator, values=values)
    selector = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(line,)),))
    return Affinity(node_affinity=NodeAffinity(required=selector))


@pytest.mark.parametrize(
    ("pod", "fits"),
    [
        (make_pod(), True),
        (make_pod(node_selector={"zone": "a"}), True),
        (make_pod(node_selector={"zone": "b"}), False),
        (make_pod(affinity=affinity("In", "a", "b")), True),
        (make_pod(affinity=affinity("NotIn", "a")), False),
        (make_pod(affinity=affinity("DoesNotExist")), False),
        (make_pod(requests={"cpu": "4"}), True),
        (make_pod(requests={"cpu": "4001m"}), False),
        (make_pod(requests={"nvidia.com/gpu": "1"}), False),
    ],
)
def test_labels_and_sizes_decide(pod, fits):
    assert bool(judge(pod, make_node(labels={"zone": "a"})).eligible) == fits


def test_a_taint_excludes_pods_that_do_not_tolerate_it():
    node = make_node(taints=[LOCKED])
    assert judge(make_pod(), node).eligible == ()
    assert judge(make_pod(tolerations=(Toleration(key="team", value="a"),)), node).eligible == ("s-node1",)
    assert judge(make_pod(tolerations=(Toleration(operator="Exists"),)), node).eligible == ("s-node1",)


def test_a_cordoned_node_stays_eligible_because_slurm_drains_it():
    cordon = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    assert judge(make_pod(), make_node(taints=[cordon], unschedulable=True)).eligible


def test_what_is_reserved_from_slurm_is_not_offered():
    small = SlurmNode(name="s-node1", cpus=3, memory_mib=4096)
    assert (
        "3 CPUs where the pod needs 4"
        in judge(make_pod(requests={"cpu": "4"}), make_node(), slurm=small).refused["s-node1"]
    )
    assert judge(make_pod(requests={"cpu": "3"}), make_node(), slurm=small).eligible


def test_what_daemons_take_is_not_offered():
    daemons = Candidate(slurm_node="s", node=make_node(cpu="4"), taken={"cpu": 100, "pods": 1})
    pod = make_pod(requests={"cpu": "4"})
    assert eligible_nodes(pod.spec, [daemons], gpu_resources={}).refused == {
        "s": "lacks cpu: needs 4, has 3900m beside pods that Slurm does not schedule"
    }
    pod = make_pod(requests={"cpu": "5"})
    assert eligible_nodes(pod.spec, [daemons], gpu_resources={}).refused == {"s": "lacks cpu: needs 5, has 4"}


def test_a_pod_that_may_go_anywhere_excludes_nothing():
    assert excluded(judge(make_pod(), make_node("a"), make_node("b"))) == ()


def test_the_explanation_counts_what_is_in_the_way():
    nodes = [make_node("a"), make_node("b"), make_node("c", labels={"zone": "a"}, cpu="2")]
    pod = make_pod(node_selector={"zone": "a"}, requests={"cpu": "4"})
    assert explain_eligibility(judge(pod, *nodes)) == (
        "none of 3 Slurm nodes fits: 2 with labels other than the pod's nodeSelector, 1 lacks cpu: needs 4, has 2"
    )


def test_no_node_at_all_is_said_as_such():
    assert "no Slurm node yet" in explain_eligibility(judge(make_pod()))


def test_a_node_that_refused_is_taken_out_but_never_the_last():
    both = judge(make_pod(), make_node("a"), make_node("b"))
    one = without(both, {"s-a": "OutOfcpu"})
    assert one.eligible == ("s-b",)
    assert without(one, {"s-b": "OutOfcpu"}) == one
