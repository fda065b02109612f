import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.health import State
from sunkpy.core.model.objects import Condition, Taint
from sunkpy.core.nodeset.node_mark import DRAIN_TAINT, DrainPolicy, MarkLimit, foreign_cordon, is_marked, start_drained
from sunkpy.core.nodeset.node_side import decide_node, decide_pod_cordon
from tests.unit.core.health.build import record
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod

NODESET = make_nodeset()
TOLD = {names.ANNOTATION_SLURM_DRAIN: "bad gpu"}
OURS = {names.ANNOTATION_CORDONED_BY: "slurm", names.ANNOTATION_DRAIN: "bad gpu", **TOLD}
OTHER = Taint(key="team", value="a", effect="NoExecute", time_added="2026-11-20T11:00:00Z")


def decide(node, slurm, **marking):
    condition = Condition(type=names.CONDITION_CORDON, status=slurm, reason="DrainedInSlurm", message="bad gpu")
    return decide_node(node, make_pod(NODESET, 1, cordon=condition), MarkLimit(**marking))


def condition_of(patch):
    return next(c for c in patch.conditions if c.type == names.CONDITION_CORDON)


@pytest.mark.parametrize(
    ("policy", "cordons", "taints"),
    [
        (DrainPolicy.CORDON, True, None),
        (DrainPolicy.TAINT, None, (OTHER, DRAIN_TAINT)),
        (DrainPolicy.CONDITION, None, None),
    ],
)
def test_the_policy_says_what_a_drain_does(policy, cordons, taints):
    patch = decide(make_node(1, taints=(OTHER,)), "True", policy=policy)
    assert (patch.unschedulable, patch.taints) == (cordons, taints)
    assert patch.annotations[names.ANNOTATION_SLURM_DRAIN] == "bad gpu"
    assert condition_of(patch).status == "True"
    assert patch.marks is (policy is not DrainPolicy.CONDITION)


KARPENTER = Taint(key="karpenter.sh/disrupted", effect="NoSchedule")
AUTOSCALER = Taint(key="ToBeDeletedByClusterAutoscaler", value="1763900000", effect="NoSchedule")
CANDIDATE = Taint(key="DeletionCandidateOfClusterAutoscaler", value="1763900000", effect="PreferNoSchedule")
PERSONS = {names.ANNOTATION_DRAIN: "new dimm"}
NOTICES = (
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/asg-lifecycle-termination",
    "aws-node-termination-handler/scheduled-maintenance",
    "cloud.google.com/impending-node-termination",
    "remediator.kubernetes.azure.com/unschedulable",
    "ignore-taint.cluster-autoscaler.kubernetes.io/oke-impending-node-termination",
)
REBALANCE = Taint(key="aws-node-termination-handler/rebalance-recommendation", effect="NoSchedule")
STOPS = "[container runtime is down, node is shutting down]"


@pytest.mark.parametrize(
    ("node", "cordon"),
    [
        pytest.param({"taints": (KARPENTER,)}, "taint karpenter.sh/disrupted", id="karpenter"),
        pytest.param({"taints": (OTHER, AUTOSCALER)}, "taint ToBeDeletedByClusterAutoscaler", id="autoscaler"),
        *[pytest.param({"taints": (Taint(key=key, effect="NoSchedule"),)}, f"taint {key}", id=key) for key in NOTICES],
        pytest.param({"ready": False, "says": STOPS}, "its kubelet says: node is shutting down", id="stops"),
        pytest.param({"ready": True, "says": STOPS}, None, id="is ready again"),
        pytest.param({"ready": False, "says": "PLEG is not healthy"}, None, id="not ready for another reason"),
        pytest.param({"taints": (REBALANCE, CANDIDATE, OTHER)}, None, id="hints, and a taint of others"),
        pytest.param({"deleting": True}, "the Node is being deleted", id="deleted"),
        pytest.param({"deleting": True, "unschedulable": True}, "the Node is being deleted", id="and cordoned"),
        pytest.param({"taints": (KARPENTER,), "annotations": OURS, "unschedulable": True},
                     "taint karpenter.sh/disrupted", id="beside our cordon"),
        pytest.param({"taints": (KARPENTER,), "annotations": PERSONS, "unschedulable": True},
                     "new dimm", id="a person's words count for more"),
    ],
)  # fmt: skip
def test_a_node_that_is_to_go_is_cordoned_in_its_own_words(node, cordon):
    assert foreign_cordon(make_node(1, **node)) == cordon
    assert decide_pod_cordon(make_node(1, **node), make_pod(NODESET, 1)) == (
        {names.ANNOTATION_CORDON: cordon} if cordon else {}
    )


@pytest.mark.parametrize("policy", DrainPolicy)
def test_another_policy_takes_the_mark_of_the_one_before_away(policy):
    cordoned = decide(make_node(1, unschedulable=True, annotations=OURS), "True", policy=policy)
    assert cordoned.unschedulable is (None if policy is DrainPolicy.CORDON else False)
    tainted = decide(make_node(1, taints=(OTHER, DRAIN_TAINT), annotations=TOLD), "True", policy=policy)
    assert tainted.taints == (None if policy is DrainPolicy.TAINT else (OTHER,))


SICK = record(State.DRAINED, "label").encode()
HEALTH = {names.ANNOTATION_HEALTH: SICK}


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        pytest.param({"annotations": HEALTH}, "k8s: health: label: evidence", id="sick"),
        pytest.param({"annotations": {**HEALTH, names.ANNOTATION_DRAIN: "fan"}, "unschedulable": True},
                     "k8s: cordon: fan", id="and cordoned"),
        pytest.param({"annotations": {**HEALTH, **TOLD}}, "bad gpu", id="and drained in Slurm"),
        pytest.param({}, None, id="well"),
    ],
)  # fmt: skip
def test_a_slurmd_on_a_sick_node_starts_drained(node, reason):
    assert start_drained(make_node(1, **node)) == reason
    told = decide_pod_cordon(make_node(1, **node), make_pod(NODESET, 1))
    assert told.get(names.ANNOTATION_HEALTH_DRAIN) == ("label: evidence" if node else None)


def test_a_taint_of_ours_goes_with_the_drain():
    patch = decide(make_node(1, taints=(OTHER, DRAIN_TAINT), annotations=TOLD), "False", policy=DrainPolicy.TAINT)
    assert patch.taints == (OTHER,)


@pytest.mark.parametrize("policy", [DrainPolicy.CORDON, DrainPolicy.TAINT])
def test_beyond_the_cap_a_node_stays_open_and_says_why(policy):
    patch = decide(make_node(1), "True", policy=policy, has_room=False)
    assert patch.is_held
    assert not patch.marks
    assert condition_of(patch).reason == "TooManyAtOnce"
    assert condition_of(patch).message.startswith("bad gpu (")
    assert patch.annotations[names.ANNOTATION_SLURM_DRAIN] == "bad gpu", "a new slurmd pod starts drained all the same"


@pytest.mark.parametrize("policy", [DrainPolicy.CORDON, DrainPolicy.TAINT])
def test_a_node_that_is_marked_stays_so_without_room(policy):
    marked = {
        DrainPolicy.CORDON: make_node(1, unschedulable=True, annotations=OURS),
        DrainPolicy.TAINT: make_node(1, taints=(DRAIN_TAINT,), annotations=TOLD),
    }
    patch = decide(marked[policy], "True", policy=policy, has_room=False)
    assert is_marked(marked[policy])
    assert not patch.is_held
    assert (patch.unschedulable, patch.taints) == (None, None)


@pytest.mark.parametrize(
    ("unschedulable", "annotations", "reason", "cordon"),
    [
        pytest.param(False, {}, None, None, id="open"),
        pytest.param(True, {}, "k8s: cordon: node cordoned", "node cordoned", id="cordoned by a person"),
        pytest.param(True, {names.ANNOTATION_DRAIN: "fan"}, "k8s: cordon: fan", "fan", id="with a reason"),
        pytest.param(True, OURS, "bad gpu", None, id="cordoned by us: Slurm's reason as it stood"),
        pytest.param(False, TOLD, "bad gpu", None, id="remembered without a cordon"),
        pytest.param(True, {**TOLD, names.ANNOTATION_DRAIN: "fan"}, "bad gpu", "fan", id="both: Slurm's first"),
        pytest.param(True, {**OURS, names.ANNOTATION_DRAIN: "fan"}, "bad gpu", "fan", id="a person's words on ours"),
        pytest.param(False, OURS, None, None, id="our cordon, lifted by a person"),
    ],
)
def test_how_a_new_slurmd_starts(unschedulable, annotations, reason, cordon):
    node = make_node(1, unschedulable=unschedulable, annotations=annotations)
    assert (start_drained(node), foreign_cordon(node)) == (reason, cordon)


@given(
    slurm=st.sampled_from(["True", "False", "Unknown"]),
    text=st.sampled_from([None, "fan", "bad gpu"]),
    told=st.sampled_from([None, "bad gpu", "old"]),
    refused=st.sampled_from([None, "bad gpu", "old"]),
    by=st.sampled_from([None, "slurm", "ann"]),
    policy=st.sampled_from(list(DrainPolicy)),
    has_room=st.booleans(),
)
def test_a_cordon_that_anybody_else_wants_is_never_lifted(slurm, text, told, refused, by, policy, has_room):
    notes = {
        names.ANNOTATION_DRAIN: text,
        names.ANNOTATION_SLURM_DRAIN: told,
        names.ANNOTATION_SLURM_REFUSED: refused,
        names.ANNOTATION_CORDONED_BY: by,
    }
    notes = {key: value for key, value in notes.items() if value is not None}
    node = make_node(1, unschedulable=True, annotations=notes)
    patch = decide(node, slurm, policy=policy, has_room=has_room)
    if foreign_cordon(node) is not None:
        assert patch.unschedulable is None
        assert patch.annotations.get(names.ANNOTATION_DRAIN, "kept") == "kept"


REFUSED = Condition(type=names.CONDITION_CORDON, status="True", reason=names.REASON_INVALID, message="1 < 2 GPUs")


def cordoned_for_what_slurm_refuses(says: str | None = None):
    patch = decide_node(make_node(1), make_pod(NODESET, 1, cordon=REFUSED))
    assert patch.unschedulable
    notes = {key: value for key, value in patch.annotations.items() if value is not None}
    return make_node(1, unschedulable=True, annotations=notes | ({names.ANNOTATION_DRAIN: says} if says else {}))


@pytest.mark.parametrize("slurm", ["True", "False", "Unknown"])
def test_a_person_takes_over_a_cordon_of_what_slurm_refuses(slurm):
    node = cordoned_for_what_slurm_refuses("bad fan")
    now = {"True": REFUSED}.get(slurm, Condition(type=names.CONDITION_CORDON, status=slurm))
    patch = decide_node(node, make_pod(NODESET, 1, cordon=now))
    assert patch.unschedulable is None
    assert names.ANNOTATION_DRAIN not in patch.annotations
    assert patch.annotations[names.ANNOTATION_CORDONED_BY] is None


def test_a_cordon_of_what_slurm_refuses_goes_with_it():
    opened = Condition(type=names.CONDITION_CORDON, status="False")
    patch = decide_node(cordoned_for_what_slurm_refuses(), make_pod(NODESET, 1, cordon=opened))
    assert patch.unschedulable is False
    assert patch.annotations[names.ANNOTATION_SLURM_REFUSED] is None


def test_what_slurm_refuses_of_one_slurmd_is_not_held_against_the_next():
    patch = decide_node(make_node(1, annotations=TOLD), make_pod(NODESET, 1, cordon=REFUSED))
    assert start_drained(cordoned_for_what_slurm_refuses()) is None
    assert patch.unschedulable
    assert patch.annotations[names.ANNOTATION_SLURM_DRAIN] is None
    assert patch.annotations[names.ANNOTATION_DRAIN] == "1 < 2 GPUs"
