"""Volumes that not every node can reach: what becomes of the nodes, and of pods whose claims have no volume yet."""

import pytest

from sunkpy.core.model.objects import (
    ClaimSource,
    EphemeralSource,
    LabelSelector,
    Meta,
    NodeSelector,
    NodeSelectorTerm,
    PodVolume,
    Resources,
    SelectorRequirement,
)
from sunkpy.core.model.storage import (
    SELECTED_NODE,
    Claim,
    ClaimSpec,
    Driver,
    DriverSpec,
    FreeStorage,
    StorageClass,
    TopologyLine,
    TopologyTerm,
    Volume,
    VolumeNodeAffinity,
    VolumeSpec,
)
from sunkpy.core.placement.eligibility import Candidate, eligible_nodes, explain_eligibility
from sunkpy.core.placement.free_storage import FreeRoom, decides
from sunkpy.core.placement.volumes import (
    Storage,
    claims_to_place,
    find_user,
    storage_asked,
    why_out_of_reach,
    within_reach,
)
from tests.unit.core.gang.pods import make_node, make_pod

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NODES = [make_node("a", labels={ZONE: "east"}), make_node("b", labels={ZONE: "west"}), make_node("c")]
CANDIDATES = [Candidate(slurm_node=f"s-{node.name}", node=node) for node in NODES]


def within(key, *values):
    line = SelectorRequirement(key=key, operator="In", values=values)
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(line,)),))


def volume(required=None):
    affinity = VolumeNodeAffinity(required=required) if required else None
    return Volume(metadata=Meta(name="pv"), spec=VolumeSpec(node_affinity=affinity))


def claim(name="data", *, bound=False, class_name="late", volume_name="", chosen="", deleting=False, modes=(), size=""):
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
    annotations |= {SELECTED_NODE: chosen} if chosen else {}
    gone = "2026-11-21T00:00:00Z" if deleting else None
    meta = Meta(name=name, namespace="default", uid=name, annotations=annotations, deletion_timestamp=gone)
    asked = Resources(requests={"storage": size} if size else {})
    spec = ClaimSpec(
        volume_name="pv" if bound else volume_name, storage_class_name=class_name, access_modes=modes, resources=asked
    )
    return Claim(metadata=meta, spec=spec)


LATE, EARLY, STATIC = (
    StorageClass(metadata=Meta(name=name), provisioner=provisioner, volume_binding_mode=mode)
    for name, provisioner, mode in (
        ("late", "csi.example.com", "WaitForFirstConsumer"),
        ("early", "csi.example.com", "Immediate"),
        ("static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    )
)
TOPOLOGY = TopologyTerm(match_label_expressions=(TopologyLine(key=ZONE, values=("west",)),))
NARROW = StorageClass(
    metadata=Meta(name="narrow"),
    provisioner="csi.example.com",
    volume_binding_mode="WaitForFirstConsumer",
    allowed_topologies=(TOPOLOGY,),
)


def storage(*claims, volumes=(), classes=(LATE, EARLY, STATIC, NARROW), pods=(), told=True, free=()):
    driver = Driver(metadata=Meta(name="csi.example.com"), spec=DriverSpec(storage_capacity=told))
    room = FreeRoom()
    for each in free:
        room.follow(None, each)
    return Storage(
        claim={each.key: each for each in claims}.get,
        volume={each.name: each for each in volumes}.get,
        storage_class={each.name: each for each in classes}.get,
        user_of=lambda claim, pod: find_user(claim, pod, pods),
        driver={"csi.example.com": driver}.get,
        free=room,
    )


def pod(*claims, name="web", **spec):
    volumes = tuple(PodVolume(name=each, persistent_volume_claim=ClaimSource(claim_name=each)) for each in claims)
    return make_pod(name, volumes=(*volumes, PodVolume(name="token")), **spec)


def reach(pods, known):
    everywhere = eligible_nodes(make_pod().spec, CANDIDATES, gpu_resources={})
    return within_reach(everywhere, pods, CANDIDATES, known)


@pytest.mark.parametrize(
    ("there", "eligible"),
    [
        (volume(), ("s-a", "s-b", "s-c")),
        (volume(within(ZONE, "east")), ("s-a",)),
        (volume(within(ZONE, "east", "west")), ("s-a", "s-b")),
        (volume(within("kubernetes.io/hostname", "elsewhere")), ()),
    ],
)
def test_a_bound_volume_keeps_its_pod_where_it_can_be_reached(there, eligible):
    known = storage(claim(bound=True), volumes=[there])
    found = reach([pod("data")], known)
    assert found.eligible == eligible
    for candidate in CANDIDATES:
        is_out = why_out_of_reach(pod("data"), candidate.node, known)
        assert bool(is_out) == (candidate.slurm_node not in eligible)


def test_it_is_said_which_volume_is_in_the_way():
    found = reach([pod("data")], storage(claim(bound=True), volumes=[volume(within(ZONE, "north"))]))
    assert explain_eligibility(found) == "none of 3 Slurm nodes fits: 3 out of reach of volume pv (claim data)"


def test_all_pods_of_a_job_must_reach_theirs():
    first, second = pod("data"), pod("more", name="web-2")
    known = storage(claim(bound=True), claim("more", class_name="narrow"), volumes=[volume(within(ZONE, "east"))])
    assert reach([first], known).eligible == ("s-a",)
    assert reach([second], known).eligible == ("s-b",)
    assert reach([first, second], known).eligible == ()


def test_pods_without_claims_go_anywhere():
    assert not pod().volume_claims
    assert reach([pod()], storage()).eligible == ("s-a", "s-b", "s-c")


def test_a_claim_that_a_volume_of_the_pod_makes_has_the_name_of_both():
    scratch = make_pod("web", volumes=(PodVolume(name="scratch", ephemeral=EphemeralSource()),))
    assert scratch.volume_claims == (("default", "web-scratch"),)
    assert claims_to_place(scratch, storage(claim("web-scratch"))) == [claim("web-scratch")]


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ([], "claim data of pod web is not there"),
        ([claim(deleting=True)], "claim data of pod web is being deleted"),
        ([claim(bound=True)], "volume pv of claim data of pod web is not there"),
        ([claim(class_name="early")], "claim data of pod web is not bound to a volume yet"),
        ([claim(class_name="unknown")], "claim data of pod web is not bound to a volume yet"),
        ([claim(class_name=None)], "claim data of pod web is not bound to a volume yet"),
        ([claim(volume_name="pv")], "claim data of pod web is not bound to a volume yet"),
        (
            [claim(class_name="static")],
            "claim data of pod web waits for its first consumer, and no provisioner makes volumes of class static: "
            "name an existing one in its spec.volumeName",
        ),
    ],
)
def test_pods_wait_for_what_only_others_can_do(known, why):
    found = reach([pod("data")], storage(*known))
    assert (found.eligible, explain_eligibility(found)) == ((), why)


def test_a_volume_that_waits_for_its_consumer_is_made_where_the_pod_will_be():
    known = storage(claim(), claim("narrow", class_name="narrow"))
    assert reach([pod("data")], known).eligible == ("s-a", "s-b", "s-c")
    assert reach([pod("data", "narrow")], known).eligible == ("s-b",)
    assert [each.name for each in claims_to_place(pod("data", "narrow"), known)] == ["data", "narrow"]


def test_while_it_is_made_no_other_node_is_chosen():
    known = storage(claim(chosen="b"))
    assert reach([pod("data")], known).eligible == ("s-b",)
    assert claims_to_place(pod("data"), known) == []
    assert why_out_of_reach(pod("data"), NODES[0], known) == (
        "it is out of reach of the volume that is made on node b (claim data)"
    )


@pytest.mark.parametrize(
    ("modes", "other", "waits"),
    [
        (("ReadWriteOncePod",), {"node": "a"}, True),
        (("ReadWriteMany",), {"node": "a"}, False),
        (("ReadWriteOncePod",), {}, False),
        (("ReadWriteOncePod",), {"node": "a", "phase": "Succeeded"}, False),
        (("ReadWriteOncePod",), {"node": "a", "uid": "uid-1"}, False),
    ],
)
def test_a_claim_for_one_pod_keeps_others_waiting_until_that_has_ended(modes, other, waits):
    user = pod("data", name="other", **({"uid": "uid-2"} | other))
    known = storage(claim(bound=True, modes=modes), volumes=[volume()], pods=[user])
    said = explain_eligibility(reach([pod("data")], known))
    assert said.startswith("claim data of pod web is for one pod (ReadWriteOncePod), and pod other uses it") is waits
    assert bool(why_out_of_reach(pod("data"), NODES[0], known)) is waits


EAST, WEST = (LabelSelector(match_labels={ZONE: zone}) for zone in ("east", "west"))
WEST_IN_LINES = LabelSelector(
    match_expressions=(SelectorRequirement(key=ZONE, operator="In", values=frozenset({"west"})),)
)


def free(where, capacity=None, *, largest=None, class_name="late"):
    meta = Meta(name="free", namespace="csi", uid=f"{where}{capacity}{largest}")
    return FreeStorage(
        metadata=meta,
        storage_class_name=class_name,
        node_topology=where,
        capacity=capacity,
        maximum_volume_size=largest,
    )


@pytest.mark.parametrize(
    ("there", "eligible"),
    [
        pytest.param([free(EAST, "20Gi"), free(WEST, "5Gi")], ("s-a",), id="it is large enough on one"),
        pytest.param([free(EAST, "10Gi"), free(WEST_IN_LINES, "10Gi")], ("s-a", "s-b"), id="just large enough"),
        pytest.param([free(LabelSelector(), "20Gi")], ("s-a", "s-b", "s-c"), id="the same for all nodes"),
        pytest.param([free(EAST, "50Gi", largest="5Gi"), free(WEST, largest="10Gi")], ("s-b",), id="in pieces"),
        pytest.param([free(None, "20Gi"), free(EAST)], (), id="for no node, or nothing said"),
        pytest.param([free(EAST, "20Gi", class_name="narrow")], (), id="of another class"),
        pytest.param([], (), id="nothing is told"),
    ],
)
def test_a_volume_is_made_only_where_its_driver_has_that_much_free(there, eligible):
    """kube-scheduler, pkg/scheduler/framework/plugins/volumebinding/binder.go: `hasEnoughCapacity`."""
    assert reach([pod("data")], storage(claim(size="10Gi"), free=there)).eligible == eligible


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(storage(claim(size="10Gi"), told=None), id="the driver does not tell"),
        pytest.param(storage(claim()), id="the claim asks for no size"),
        pytest.param(storage(claim(size="10Gi", bound=True), volumes=[volume()]), id="the volume is there"),
    ],
)
def test_free_storage_is_not_asked_for(known):
    assert reach([pod("data")], known).eligible == ("s-a", "s-b", "s-c")


def test_a_volume_that_is_being_made_needs_no_more_room():
    assert reach([pod("data")], storage(claim(size="10Gi", chosen="a"))).eligible == ("s-a",)


@pytest.mark.parametrize(
    ("there", "known", "eligible"),
    [
        pytest.param([free(EAST, "5Gi")], [claim(size="10Gi")], ("s-a", "s-b", "s-c"), id="all are full"),
        pytest.param([free(EAST, "20Gi")], [claim(size="10Gi")], ("s-a",), id="one has room"),
        pytest.param([], [claim(size="10Gi", class_name="narrow")], ("s-b",), id="those in reach are full"),
    ],
)
def test_where_there_may_be_more_nodes_free_storage_takes_no_last_one(there, known, eligible):
    """Only a job that waits for a node has the NodeSet grow."""
    everywhere = eligible_nodes(make_pod().spec, CANDIDATES, gpu_resources={})
    found = within_reach(everywhere, [pod("data")], CANDIDATES, storage(*known, free=there), may_grow=True)
    assert found.eligible == eligible


def test_it_is_said_where_storage_is_lacking():
    found = reach([pod("data")], storage(claim(size="10Gi"), free=[free(EAST, "5Gi")]))
    says = "none of 3 Slurm nodes fits: 3 without 10Gi of free storage in class late (claim data)"
    assert explain_eligibility(found) == says


@pytest.mark.parametrize(
    ("asking", "before", "now", "expected"),
    [
        (claim(size="10Gi"), free(EAST, "50Gi"), free(EAST, "20Gi"), False),
        (claim(size="10Gi"), free(EAST, "5Gi"), free(EAST, "20Gi"), True),
        (claim(size="10Gi"), None, free(EAST, "20Gi"), True),
        (claim(size="10Gi"), free(EAST, "20Gi"), free(WEST, "20Gi"), True),
        (claim(size="10Gi", class_name="narrow"), None, free(EAST, "20Gi"), False),
        (claim(size="10Gi", chosen="a"), None, free(EAST, "20Gi"), False),
        (claim(), None, free(EAST, "20Gi"), False),
    ],
)
def test_what_is_told_of_free_storage_matters_only_to_claims_that_it_decides_about(asking, before, now, expected):
    assert any(decides(asked, before, now) for asked in storage_asked(asking)) is expected


def test_a_pass_looks_at_free_storage_once_for_all_gangs_that_ask_for_the_same(monkeypatch):
    """Thousands of nodes have dozens of labels each, and each has an object; one label of these all nodes have."""
    many, labels = 100, {f"label-{number}": "same" for number in range(40)}
    nodes = [make_node(f"n{number}", labels={**labels, HOST: f"n{number}"}) for number in range(many)]
    candidates = [Candidate(slurm_node=node.name, node=node) for node in nodes]
    told = [
        free(LabelSelector(match_labels={"label-0": "same", HOST: node.name}), f"{number % 2 * 20}Gi")
        for number, node in enumerate(nodes)
    ]
    known = storage(claim(size="10Gi"), free=told)
    looks = []
    holds = FreeStorage.holds
    monkeypatch.setattr(FreeStorage, "holds", lambda self, size: looks.append(size) or holds(self, size))
    everywhere = eligible_nodes(make_pod().spec, candidates, gpu_resources={})

    def looked():
        looks.clear()
        found = within_reach(everywhere, [pod("data")], candidates, known)
        return len(found.eligible), len(looks)

    assert looked() == (many // 2, many), "each object is looked at for its own node"
    assert looked() == (many // 2, 0), "and not again for the next gang"
    assert why_out_of_reach(pod("data"), nodes[0], known)
    assert looked() == (many // 2, 0), "nor after a question about one node"
    known.free.follow(told[0], free(told[0].node_topology, "5Gi"))
    assert looked() == (many // 2, 0), "nor when it is still too little"
    known.free.follow(told[1], None)
    assert looked() == (many // 2 - 1, many - 1)
    candidates = candidates[:10]
    everywhere = eligible_nodes(make_pod().spec, candidates, gpu_resources={})
    assert looked() == (4, 9)
