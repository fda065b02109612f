import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.model.devices import CLAIMED
from sunkpy.core.model.gres import gres_counts
from sunkpy.core.model.objects import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    Resources,
    SelectorRequirement,
    Taint,
    Toleration,
)
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.placement.eligibility import (
    Candidate,
    by_names,
    eligible_nodes,
    excluded,
    explain_eligibility,
    foreign_nodes,
    in_common,
    nowhere,
    takes_features,
    with_features,
    without,
)
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


@pytest.mark.parametrize(
    "condition",
    ["not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure", "network-unavailable"],
)
def test_a_node_stays_eligible_with_a_taint_that_kubernetes_takes_away_again(condition):
    taint = Taint(key=f"node.kubernetes.io/{condition}", effect="NoSchedule")
    assert judge(make_pod(), make_node(taints=[taint])).eligible


def test_what_is_reserved_from_slurm_is_not_offered():
    small = SlurmNode(name="s-node1", cpus=3, memory_mib=4096)
    found = judge(make_pod(requests={"cpu": "4"}), make_node(), slurm=small)
    assert found.refused == {"s-node1": "lacks cpu: needs 4, has 3 for Slurm"}
    cores_kept = SlurmNode(name="s-node1", cpus=4, effective_cpus=2, memory_mib=4096)
    found = judge(make_pod(requests={"cpu": "4"}), make_node(), slurm=cores_kept)
    assert found.refused == {"s-node1": "lacks cpu: needs 4, has 2 for Slurm"}
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


# ------------------------------------------------------------------------------------ features before names


def of_nodeset(name, *nodes, features=()):
    slurm = {node.name: SlurmNode(name=f"s-{node.name}", features=frozenset({name, *features})) for node in nodes}
    return [Candidate(slurm_node=f"s-{n.name}", node=n, slurm=slurm[n.name], nodeset=name) for n in nodes]


WANTS_A = make_pod(node_selector={"zone": "a"})
IN_A, IN_B = {"labels": {"zone": "a"}}, {"labels": {"zone": "b"}}


def test_a_nodeset_of_which_no_node_will_do_is_left_out_by_the_features_of_the_others():
    pool = of_nodeset("gpu", make_node("a", **IN_A)) + of_nodeset("cpu", make_node("b", **IN_B))
    found = eligible_nodes(WANTS_A.spec, pool, gpu_resources=GPUS)
    assert (found.features, excluded(found)) == (("gpu",), ())
    later = [*pool, *of_nodeset("cpu", make_node("c", **IN_B))]
    again = eligible_nodes(WANTS_A.spec, later, gpu_resources=GPUS)
    assert (again.features, excluded(again)) == (found.features, excluded(found))
    assert explain_eligibility(again).startswith("none of 2 Slurm nodes fits")


def test_within_a_nodeset_nodes_are_excluded_by_name():
    pool = of_nodeset("gpu", make_node("a", **IN_A), make_node("b", **IN_B)) + of_nodeset("cpu", make_node("c"))
    found = eligible_nodes(WANTS_A.spec, pool, gpu_resources=GPUS)
    assert (found.features, excluded(found)) == (("gpu",), ("s-b",))


def test_a_label_that_is_a_feature_tells_them_apart_where_the_pod_selects_it():
    """Two of three nodes would be excluded by name, and one that joins later as well."""
    nodes = {"a": make_node("a", **IN_A), "b": make_node("b", **IN_B), "c": make_node("c", **IN_B)}
    pool = [c for name, n in nodes.items() for c in of_nodeset("gpu", n, features=[f"k8s/zone={n.labels['zone']}"])]
    found = eligible_nodes(WANTS_A.spec, pool, gpu_resources=GPUS, foreign={"bare"})
    assert (found.features, excluded(found)) == (("k8s/zone=a",), ("bare",))
    relabelled = [*pool, *of_nodeset("gpu", make_node("d", **IN_A), features=["k8s/zone=b"])]
    found = eligible_nodes(WANTS_A.spec, relabelled, gpu_resources=GPUS)
    assert (found.features, excluded(found)) == ((), ("s-b", "s-c")), "the next slurmd pod of d brings the feature"


def test_a_node_with_the_feature_of_another_nodeset_is_excluded_by_name():
    pool = of_nodeset("gpu", make_node("a", **IN_A)) + of_nodeset("cpu", make_node("b"), features=["gpu"])
    found = eligible_nodes(WANTS_A.spec, pool, gpu_resources=GPUS)
    assert (found.features, excluded(found)) == ((), ("s-b",))


@pytest.mark.parametrize(
    "pool",
    [
        of_nodeset("gpu", make_node("a", **IN_A), make_node("b")),
        [Candidate(slurm_node=f"s-{node.name}", node=node) for node in (make_node("a", **IN_A), make_node("b"))],
        [*of_nodeset("gpu", make_node("a", **IN_A)), Candidate(slurm_node="s-b", node=make_node("b"))],
    ],
)
def test_without_a_feature_that_tells_them_apart_names_do(pool):
    found = eligible_nodes(WANTS_A.spec, pool, gpu_resources=GPUS)
    assert (found.features, excluded(found)) == ((), ("s-b",))


def test_what_is_taken_out_later_is_excluded_by_name():
    pool = of_nodeset("gpu", make_node("a", **IN_A), make_node("b", **IN_A)) + of_nodeset("cpu", make_node("c"))
    found = without(eligible_nodes(WANTS_A.spec, pool, gpu_resources=GPUS), {"s-a": "OutOfcpu"})
    assert (found.eligible, found.features, excluded(found)) == (("s-b",), ("gpu",), ("s-a",))
    assert excluded(by_names(found)) == ("s-a", "s-c")


def test_nodes_outside_kubernetes_are_left_out_by_the_features_of_those_within():
    pool = of_nodeset("gpu", make_node("a"), make_node("b"))
    slurm = [SlurmNode(name="bare", features=frozenset({"big"})), SlurmNode(name="s-c", features=frozenset({"gpu"}))]
    foreign = foreign_nodes([*(c.slurm for c in pool), *slurm], pool)
    assert foreign == {"bare"}, "the slurmd pod of s-c is made anew"
    found = eligible_nodes(make_pod().spec, pool, gpu_resources=GPUS, foreign=foreign)
    assert (found.eligible, found.features, excluded(found)) == (("s-a", "s-b"), ("gpu",), ())
    assert excluded(by_names(found)) == ("bare",)


def test_nodes_outside_kubernetes_are_excluded_by_name_where_features_do_not_tell():
    pool = [Candidate(slurm_node="s-a", node=make_node("a"), slurm=SlurmNode(name="s-a"), nodeset="gpu")]
    found = eligible_nodes(make_pod().spec, pool, gpu_resources=GPUS, foreign={"bare"})
    assert (found.eligible, found.features, excluded(found)) == (("s-a",), (), ("bare",))


def test_a_pod_for_which_there_are_only_nodes_outside_kubernetes_is_told_so():
    found = eligible_nodes(make_pod().spec, [], gpu_resources=GPUS, foreign={"bare"})
    assert explain_eligibility(found) == "none of 1 Slurm nodes fits: 1 outside Kubernetes"


NODES = st.lists(st.tuples(st.sampled_from(["x", "y", "z", ""]), st.booleans(), st.booleans()), min_size=1, max_size=8)


@given(NODES, NODES)
def test_features_and_names_together_leave_the_nodes_that_will_do_and_no_others(first, second):
    """For one pod, and for two of a job."""
    pool = []
    for number, (nodeset, is_a, has_it) in enumerate(first):
        labels = {"zone": "a"} if is_a else {}
        labels |= {"disk": "ssd"} if second[number % len(second)][1] else {}
        slurm = SlurmNode(name=f"n{number}", features=frozenset({nodeset, "z"} if has_it else {"x"}))
        node = make_node(f"n{number}", labels=labels)
        pool.append(Candidate(slurm_node=f"n{number}", node=node, slurm=slurm, nodeset=nodeset))
    of_each = [
        eligible_nodes(make_pod(node_selector=selector).spec, pool, gpu_resources=GPUS)
        for selector in ({"zone": "a"}, {"disk": "ssd"})
    ]
    for found in (*of_each, in_common(of_each)):
        if not found.eligible:
            continue
        has = {c.slurm_node for c in pool if not found.features or c.slurm.features & set(found.features)}
        assert has - set(excluded(found)) == set(found.eligible)


def test_where_one_of_several_pods_fits_nowhere_none_of_them_goes():
    fits, none = judge(make_pod(), make_node(name="a")), nowhere("a request is not a quantity")
    for of_each in ([fits, none], [none, fits]):
        common = in_common(of_each)
        assert not common.eligible
        assert "a request is not a quantity" in explain_eligibility(common)


POD = st.sampled_from([make_pod(), make_pod(node_selector={"zone": "a"}), make_pod(requests={"cpu": "3"})])
NODE = st.builds(
    lambda cpu, zone, taints: make_node(cpu=cpu, labels={"zone": zone}, taints=taints),
    st.sampled_from(["2", "4"]),
    st.sampled_from("ab"),
    st.sampled_from([[], [LOCKED]]),
)
TAKEN = st.sampled_from([{}, {"cpu": 2000}])
SLURM = st.sampled_from([None, SlurmNode(name="s", cpus=2), SlurmNode(name="s", cpus=4)])


@given(pod=POD, nodes=st.lists(st.tuples(NODE, TAKEN, SLURM), max_size=8))
def test_many_nodes_are_judged_together_as_each_by_itself(pod, nodes):
    candidates = [
        Candidate(slurm_node=f"s{number}", node=node, taken=taken, slurm=slurm)
        for number, (node, taken, slurm) in enumerate(nodes)
    ]
    together = eligible_nodes(pod.spec, candidates, gpu_resources=GPUS)
    each = [eligible_nodes(pod.spec, [candidate], gpu_resources=GPUS) for candidate in candidates]
    assert together.eligible == tuple(sorted(name for one in each for name in one.eligible))
    assert together.refused == {name: why for one in each for name, why in one.refused.items()}
    assert together.rooms == frozenset(room for one in each for room in one.rooms)


@pytest.mark.parametrize(
    ("asks", "gres", "refused"),
    [
        ("gpu", "gpu:h100:4", {}),
        ("gpu", "gpu:h100:1", {"n1": "lacks gpu: needs 2, has 1 for Slurm"}),
        ("gpu", "", {"n1": "lacks gpu: needs 2, has 0 for Slurm"}),
        ("gpu", "gpu:h100:1,gpu:a100:1", {}),
        ("gpu:h100", "gpu:a100:4,gpu:h100:2", {}),
        (
            "gpu:h100",
            "gpu:a100:4,gpu:h100:1",
            {"n1": "lacks gpu:h100: needs 2, has 1 for Slurm"},
        ),
        ("gpu:h100", "gpu:4", {"n1": "lacks gpu:h100: needs 2, has 0 for Slurm"}),
        ("shard", "gpu:4", {"n1": "lacks shard: needs 2, has 0 for Slurm"}),
        ("mps", "gpu:4", {"n1": "lacks mps: needs 2, has 0 for Slurm"}),
    ],
)
def test_devices_of_claims_are_counted_by_slurm_and_by_no_kubelet(asks, gres, refused):
    resource = CLAIMED + "gpu.example.com"
    spec = PodSpec(resources=Resources(requests={resource: "2"}))
    candidate = Candidate(slurm_node="n1", node=make_node(), slurm=SlurmNode(name="n1", cpus=4, gres=gres))
    found = eligible_nodes(spec, [candidate], gpu_resources={resource: asks})
    assert found.refused == refused
    assert gres_counts(gres).items() <= candidate.room


@pytest.mark.parametrize(
    ("asked", "features", "constraint"),
    [
        ("", [], ""),
        ("", ["gpu"], "gpu"),
        ("", ["a", "b"], "a|b"),
        ("ib", [], "ib"),
        ("ib&h100", ["gpu"], "ib&h100&gpu"),
        ("ib", ["a", "b"], "ib&(a|b)"),
        ("k8s/zone=a", ["gpu"], "k8s/zone=a&gpu"),
        ("ib|eth", [], "ib|eth"),
    ],
)
def test_features_come_beside_the_constraint_of_the_pods(asked, features, constraint):
    assert takes_features(asked) or not features
    assert with_features(asked, features) == constraint


@pytest.mark.parametrize("asked", ["a|b", "[a|b]", "(a|b)&c", "gpu*2", "a&"])
def test_beside_what_is_more_than_a_list_of_features_nothing_is_put(asked):
    assert not takes_features(asked)
