import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.model.objects import Container, Node, NodeDevice, Pod, PodSpec, PodStatus, Resources, Taint
from sunkpy.core.nodeset.feasibility import Exclusion, ExclusionRule, NodeDemand, decide_fit, explain_exclusions
from sunkpy.core.nodeset.spec import Gpu, GpuType
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_template

EVICTED = {names.ANNOTATION_EMPTIED: "evicted"}


def judge(node: Node, *, occupants: tuple[Pod, ...] = (), rival: str | None = None, gpu: Gpu | None = None, **spec):
    template = make_nodeset(template=make_template(**spec)).pod_spec
    return decide_fit(node, NodeDemand.read(template, gpu), occupants=occupants, rival=rival)


def affinity(**line: object) -> dict[str, object]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [line]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "zone", "operator": "In", "values": ["b"]}, False),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "rack", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "zone", "operator": "DoesNotExist"}, False),
        ({"key": "gpus", "operator": "Gt", "values": ["4"]}, True),
        ({"key": "gpus", "operator": "Lt", "values": ["4"]}, False),
    ],
)
def test_required_affinity_decides(line, fits):
    node = make_node(1, labels={"zone": "a", "gpus": "8"})
    found = judge(node, affinity=affinity(**line))
    assert found == (None if fits else Exclusion(ExclusionRule.AFFINITY))


def test_preferred_affinity_does_not_bind():
    preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}
    assert judge(make_node(1), affinity=preferred) is None


def test_the_node_selector_binds():
    assert judge(make_node(1), nodeSelector={"a": "b"}) == Exclusion(ExclusionRule.SELECTOR)


@pytest.mark.parametrize(
    ("taint", "fits", "may_stay"),
    [
        (Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"), True, None),
        (Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule"), True, None),
        (Taint(key=names.TAINT_LOCK, value="true", effect="NoExecute"), True, None),
        (Taint(key="team", value="x", effect="PreferNoSchedule"), True, None),
        (Taint(key="team", value="x", effect="NoSchedule"), False, True),
        (Taint(key="team", value="x", effect="NoExecute"), False, False),
    ],
)
def test_taints(taint, fits, may_stay):
    found = judge(make_node(1, taints=(taint,)))
    assert (found is None) == fits
    if found is not None:
        assert found.may_stay == may_stay


def test_a_written_toleration_counts():
    taint = Taint(key="team", value="x", effect="NoSchedule")
    assert judge(make_node(1, taints=(taint,)), tolerations=[{"key": "team", "value": "x"}]) is None


def test_requests_must_fit_what_others_leave():
    other = Pod(spec=PodSpec(containers=(Container(resources=Resources(requests={"memory": "9Gi"})),)))
    requests = {"memory": "24Gi", "cpu": 2}
    assert judge(make_node(1), requests=requests) is None
    found = judge(make_node(1), requests=requests, occupants=(other,))
    assert found == Exclusion(ExclusionRule.RESOURCE, "memory", "needs 24Gi, has 23Gi", may_stay=True)


def test_a_node_without_its_gpus_does_not_fit():
    assert judge(make_node(1), gpu=Gpu()).subject == "nvidia.com/gpu"
    assert judge(make_node(1, allocatable={"nvidia.com/gpu": "8"}), gpu=Gpu()) is None


def test_of_several_types_a_node_has_one_at_least():
    gpu = Gpu(types=(GpuType(type="a", resource="x.com/a"), GpuType(type="b", resource="x.com/b")))
    assert judge(make_node(1, allocatable={"x.com/b": "1"}), gpu=gpu) is None
    assert str(judge(make_node(1, allocatable={"nvidia.com/gpu": "1"}), gpu=gpu)) == "lacks x.com/a, x.com/b: has none"


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        ({}, "lacks gpu.example.com: has no ResourceSlice, or not all"),
        ({"other": (NodeDevice(word="a"),)}, "lacks gpu.example.com: has no ResourceSlice, or not all"),
        ({"gpu.example.com": ()}, "lacks gpu.example.com: has none"),
        ({"gpu.example.com": (NodeDevice(word="a"),)}, "None"),
    ],
)
def test_the_devices_of_a_driver_are_those_that_it_publishes(devices, why):
    node = msgspec.structs.replace(make_node(1, allocatable={"nvidia.com/gpu": "8"}), devices=devices)
    assert str(judge(node, gpu=Gpu(driver="gpu.example.com"))) == why


PRODUCT, COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"
H100 = {PRODUCT: "NVIDIA-H100-80GB-HBM3", COUNT: "8"}
SLICES = {PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", COUNT: "8"}


SEVERAL = f"lacks nvidia.com/gpu: label {COUNT} counts 4, but 8 are offered: several models, or time-slicing?"


@pytest.mark.parametrize(
    ("type_", "labels", "why"),
    [
        ("", H100, None),
        ("h100", H100, None),
        ("nvidia_H100_80gb_hbm3", H100, None),  # as Slurm's own AutoDetect would call it
        ("1g.5gb", SLICES, None),
        ("big", {}, f"lacks nvidia.com/gpu: has no label {PRODUCT}"),
        ("", {PRODUCT: ""}, f"lacks nvidia.com/gpu: has no label {PRODUCT}"),
        ("a10", H100, f"lacks nvidia.com/gpu: label {PRODUCT} says nvidia-h100-80gb-hbm3, not a10"),
        ("h10", H100, f"lacks nvidia.com/gpu: label {PRODUCT} says nvidia-h100-80gb-hbm3, not h10"),
        ("a100", SLICES, f"lacks nvidia.com/gpu: label {PRODUCT} says 1g.5gb, not a100"),
        # Of several products on one node the label names one, and by turns.
        ("a100", H100 | {COUNT: "4"}, SEVERAL),
        ("h100", H100 | {COUNT: "9"}, None),  # one is unhealthy
        ("h100", H100 | {COUNT: "some"}, None),
    ],
)
def test_a_node_whose_label_says_another_type_does_not_fit(type_, labels, why):
    node = make_node(1, labels=labels, allocatable={"nvidia.com/gpu": "8"})
    found = judge(node, gpu=Gpu(type=type_, type_label=PRODUCT))
    assert (str(found) if found else None) == why
    assert found is None or found.may_stay
    assert judge(node, gpu=Gpu(type=type_)) is None, "unless it is asked for, labels decide nothing"


def test_a_node_without_gpus_lacks_them_whatever_its_labels():
    found = judge(make_node(1, labels=H100), gpu=Gpu(type="a100", type_label=PRODUCT))
    assert str(found) == "lacks nvidia.com/gpu: has none"


def test_a_node_of_another_nodeset_does_not_fit():
    assert judge(make_node(1), rival="slurm/cpu") == Exclusion(ExclusionRule.RIVAL, detail="slurm/cpu")


def test_the_explanation_counts_rules():
    text = explain_exclusions(
        {
            Exclusion(ExclusionRule.AFFINITY): 2,
            Exclusion(ExclusionRule.RESOURCE, "memory", "needs 64Gi, has 23Gi"): 1,
        }
    )
    assert text == "2 do not match nodeAffinity, 1 lacks memory: needs 64Gi, has 23Gi"


def test_a_template_with_nonsense_is_refused():
    with pytest.raises(ValueError, match="tolerations"):
        _ = make_nodeset(template={"spec": {"tolerations": "none"}}).pod_spec


def test_finished_pods_take_no_room():
    spec = PodSpec(containers=(Container(resources=Resources(requests={"cpu": "8"})),))
    live, done = Pod(spec=spec), Pod(spec=spec, status=PodStatus(phase="Succeeded"))
    assert judge(make_node(1), requests={"cpu": "8"}, occupants=(live,)) is not None
    assert judge(make_node(1), requests={"cpu": "8"}, occupants=(done,)) is None


EVERYTHING = [{"operator": "Exists"}]


@pytest.mark.parametrize(
    ("node", "fits"),
    [
        pytest.param(make_node(1, unschedulable=True), True, id="cordoned only"),
        pytest.param(make_node(1, annotations=EVICTED), True, id="uncordoned since"),
        pytest.param(
            make_node(1, unschedulable=True, annotations=EVICTED), False, id="cordoned, and its pod was evicted"
        ),
        pytest.param(
            make_node(1, taints=(Taint(key="karpenter.sh/disrupted", effect="NoSchedule"),)), False, id="karpenter"
        ),
        pytest.param(
            make_node(1, taints=(Taint(key="ToBeDeletedByClusterAutoscaler", effect="NoSchedule"),)),
            False,
            id="cluster autoscaler",
        ),
        pytest.param(
            make_node(1, taints=(Taint(key="DeletionCandidateOfClusterAutoscaler", effect="PreferNoSchedule"),)),
            True,
            id="only a candidate of the cluster autoscaler",
        ),
        pytest.param(make_node(1, deleting=True), False, id="its Node is being deleted"),
    ],
)
def test_a_node_that_is_being_emptied_gets_no_pod_and_keeps_the_one_it_has(node, fits):
    found = judge(node, tolerations=EVERYTHING)
    assert (found is None) is fits
    if found is not None:
        assert found.rule is ExclusionRule.EMPTIED
        assert found.may_stay
