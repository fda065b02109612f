import json

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.model.objects import NodeDevice, Pod
from sunkpy.core.nodeset.slurmd_pod import (
    build_pod,
    changed_offer,
    cpus_offered,
    explain_offer,
    gres_offered,
    node_of,
    offer,
    template_hash,
)
from sunkpy.core.nodeset.spec import CountedGres, Gpu, GpuType, Reserved
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod, make_template


def build(nodeset=None, node=None):
    return build_pod(nodeset or make_nodeset(), node or make_node(1), "gpu-012-001")


def env(body):
    return {variable["name"]: variable.get("value") for variable in body["spec"]["containers"][0]["env"]}


def test_the_pod_is_pinned_and_only_the_required_affinity_is_replaced():
    affinity = {
        "podAffinity": {"kept": True},
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []},
            "preferredDuringSchedulingIgnoredDuringExecution": ["kept"],
        },
    }
    spec = build(make_nodeset(template=make_template(affinity=affinity)))["spec"]
    assert spec["affinity"]["podAffinity"] == {"kept": True}
    assert spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == ["kept"]
    pod = msgspec.convert({"spec": {"affinity": build()["spec"]["affinity"]}}, Pod)
    assert node_of(pod) == "n1"


def test_pod_host_and_slurm_node_have_one_name():
    body = build()
    assert body["metadata"]["name"] == body["spec"]["hostname"] == env(body)["SUNKPY_SLURM_NODE"] == "gpu-012-001"
    assert body["metadata"]["labels"][names.LABEL_SLURM_NODE] == "gpu-012-001"


def test_labels_owner_gate_and_tolerations():
    template = make_template(tolerations=[{"key": "team", "operator": "Exists"}])
    template["metadata"] = {"labels": {"app": "x"}, "annotations": {"a": "b"}}
    body = build(make_nodeset(template=template))
    metadata, spec = body["metadata"], body["spec"]
    assert metadata["labels"]["app"] == "x"
    assert metadata["labels"][names.LABEL_ROLE] == "compute"
    assert metadata["annotations"]["a"] == "b"
    assert metadata["ownerReferences"][0]["uid"] == "uid-gpu"
    assert spec["readinessGates"] == [{"conditionType": names.READINESS_GATE}]
    keys = [toleration.get("key") for toleration in spec["tolerations"]]
    assert keys[0] == "team"
    assert {"operator": "Exists", "effect": "NoExecute"} in spec["tolerations"], "no taint ends a job"
    assert {names.TAINT_LOCK, "node.kubernetes.io/unschedulable"} <= set(keys)


def test_the_environment_tells_what_to_advertise():
    node = make_node(1, allocatable={"cpu": "7900m", "memory": "32Gi", "nvidia.com/gpu": "2"})
    nodeset = make_nodeset(gpu=Gpu(type="h100"), features=("h100", "ib"))
    found = env(build(nodeset, node))
    assert found["SUNKPY_K8S_NODE"] == "n1"
    assert found["SUNKPY_CPUS"] == "7"
    assert found["SUNKPY_MEMORY_MIB"] == str(32 * 1024 - 512)
    assert found["SUNKPY_GRES"] == "gpu:h100:2"
    assert found["SUNKPY_FEATURES"] == "gpu,h100,ib"
    comment = json.loads(found["SUNKPY_COMMENT"])
    assert comment == {
        "node": "n1", "namespace": "slurm", "pod": "gpu-012-001", "uid": "$(SUNKPY_POD_UID)", "nodeset": "gpu",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reserved", "cpus"),
    [
        (Reserved(), 8),
        (Reserved(cpu=2), 6),
        (Reserved(cpu="500m"), 7),
        (Reserved(cpu="1.5"), 6),
        (Reserved(memory="1Gi"), 8),
        (Reserved(cpu="8"), 1),
    ],
)
def test_reserved_cpus_are_not_for_jobs(reserved, cpus):
    assert cpus_offered(make_node(1, allocatable={"cpu": "8", "memory": "32Gi"}), reserved) == cpus


@pytest.mark.parametrize(
    ("gpu", "offered", "gres"),
    [
        (None, "2", ""),
        (Gpu(), "2", "gpu:2"),
        (Gpu(type="h100"), "2", "gpu:h100:2"),
        (Gpu(type="h100"), "0", ""),
    ],
)
def test_gres(gpu, offered, gres):
    assert gres_offered(make_nodeset(gpu=gpu), make_node(1, allocatable={"nvidia.com/gpu": offered})) == gres


def test_own_variables_win_and_others_are_kept():
    template = make_template()
    template["spec"]["containers"][0]["env"] = [{"name": "SUNKPY_CPUS", "value": "999"}, {"name": "A", "value": "b"}]
    found = build(make_nodeset(template=template))["spec"]["containers"][0]["env"]
    assert [variable["name"] for variable in found].count("SUNKPY_CPUS") == 1
    assert found[-1] == {"name": "A", "value": "b"}


def test_building_leaves_the_template_alone():
    nodeset = make_nodeset()
    before = msgspec.json.encode(nodeset)
    build(nodeset)
    assert msgspec.json.encode(nodeset) == before


ZONE = "topology.kubernetes.io/zone"


def test_labels_of_the_node_are_features_where_the_nodeset_names_them():
    nodeset = make_nodeset(features=("ib",), feature_labels=(ZONE, "rack", "nowhere"))
    body = build(nodeset, make_node(1, labels={ZONE: "eu-1a", "rack": "", "other": "x"}))
    said = f"gpu,ib,k8s/{ZONE}=eu-1a,k8s/rack="
    assert env(body)["SUNKPY_FEATURES"] == body["metadata"]["annotations"][names.ANNOTATION_FEATURES] == said
    assert body["metadata"]["annotations"][names.ANNOTATION_OFFERED].endswith(f" features={said}")


@pytest.mark.parametrize(
    ("labels", "weight"),
    [
        pytest.param({}, "7", id="no label"),
        pytest.param({"weight": "20"}, "20", id="its label"),
        pytest.param({"weight": "0"}, "7", id="no weight"),
        pytest.param({"weight": "4294967281"}, "7", id="more than Slurm knows"),
        pytest.param({"weight": "heavy"}, "7", id="no number"),
    ],
)
def test_the_weight_is_that_of_the_nodeset_or_of_a_label(labels, weight):
    nodeset = make_nodeset(weight=7, weight_label="weight")
    assert env(build(nodeset, make_node(1, labels=labels)))["SUNKPY_WEIGHT"] == weight
    assert env(build(make_nodeset(), make_node(1, labels=labels)))["SUNKPY_WEIGHT"] == "1"


def test_other_gres_are_counted_by_a_resource_or_as_many_as_the_nodeset_says():
    nics = CountedGres(name="nic", resource="rdma/hca")
    nodeset = make_nodeset(gres=(nics, CountedGres(name="fpga", count=2), CountedGres(name="none", resource="x/none")))
    node = make_node(1, allocatable={"cpu": "8", "memory": "32Gi", "rdma/hca": "8"})
    body = build(nodeset, node)
    assert env(body)["SUNKPY_COUNTED_GRES"] == "fpga:2,nic:8"
    assert env(body)["SUNKPY_GRES"] == ""
    pod = make_pod(nodeset, 1, annotations={names.ANNOTATION_OFFERED: offer(nodeset, node)})
    less = make_node(1, allocatable={"cpu": "8", "memory": "32Gi", "rdma/hca": "7"})
    told = "its node offers counted=fpga:2,nic:7 in place of fpga:2,nic:8"
    assert explain_offer(pod, changed_offer(nodeset, less, pod)) == told
    assert env(build(make_nodeset(), node))["SUNKPY_COUNTED_GRES"] == ""


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({"rack": "a", "weight": "3", "more": "b"}, ""),
        ({"rack": "b", "weight": "3"}, "its node offers features=gpu,k8s/rack=b in place of gpu,k8s/rack=a"),
        ({"rack": "a"}, "its node offers weight=1 in place of 3"),
    ],
)
def test_a_label_that_changes_is_another_offer(labels, told):
    nodeset = make_nodeset(feature_labels=("rack",), weight_label="weight")
    made_for = offer(nodeset, make_node(1, labels={"rack": "a", "weight": "3"}))
    pod = make_pod(nodeset, 1, annotations={names.ANNOTATION_OFFERED: made_for})
    assert explain_offer(pod, changed_offer(nodeset, make_node(1, labels=labels), pod)) == told


def test_what_cores_of_several_threads_are_is_left_to_slurmd_unless_it_is_said():
    assert env(build(make_nodeset()))["SUNKPY_SMT"] == ""
    assert names.ANNOTATION_SMT not in build(make_nodeset())["metadata"]["annotations"]
    said = build(make_nodeset(smt="one-cpu"))
    assert env(said)["SUNKPY_SMT"] == said["metadata"]["annotations"][names.ANNOTATION_SMT] == "one-cpu"


def test_the_hash_follows_what_shapes_pods():
    same = template_hash(make_nodeset())
    assert template_hash(make_nodeset(replicas=5, paused=True)) == same
    for other in (
        make_nodeset(template=make_template(image="slurmd:2")),
        make_nodeset(features=("a",)),
        make_nodeset(gpu=Gpu()),
        make_nodeset(prefix="h100"),
        make_nodeset(smt="apart"),
        make_nodeset(weight=2),
        make_nodeset(gres=(CountedGres(name="nic", count=1),)),
        make_nodeset(weight_label="a"),
        make_nodeset(feature_labels=("a",)),
    ):
        assert template_hash(other) != same


def test_on_a_cordoned_node_slurmd_starts_drained_and_the_pod_says_why_from_the_first_moment():
    node = make_node(1, unschedulable=True, annotations={names.ANNOTATION_DRAIN: "fan"})
    body = build(node=node)
    assert env(body)["SUNKPY_START_DRAINED"] == "k8s: cordon: fan"
    assert body["metadata"]["annotations"][names.ANNOTATION_CORDON] == "fan"


def test_where_slurm_had_drained_the_node_slurmd_starts_drained_for_the_same_reason():
    body = build(node=make_node(1, annotations={names.ANNOTATION_SLURM_DRAIN: "bad gpu"}))
    assert env(body)["SUNKPY_START_DRAINED"] == "bad gpu"
    assert names.ANNOTATION_CORDON not in body["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("gpus", "ready", "is_changed"),
    [("2", True, False), ("3", True, True), ("0", True, True), ("3", False, False)],
)
def test_gpus_that_come_or_go_make_another_offer(gpus, ready, is_changed):
    nodeset = make_nodeset(gpu=Gpu())
    made = build(nodeset, make_node(1, allocatable={"nvidia.com/gpu": "2"}))["metadata"]["annotations"]
    node = make_node(1, allocatable={"nvidia.com/gpu": gpus}, ready=ready)
    found = changed_offer(nodeset, node, make_pod(nodeset, 1, annotations=made))
    assert bool(found) is is_changed
    assert changed_offer(nodeset, node, make_pod(nodeset, 2)) == "", "a pod of an older operator does not say"
    assert changed_offer(nodeset, None, make_pod(nodeset, 1, annotations=made)) == ""


@pytest.mark.parametrize(
    ("devices", "gres", "words", "offers_now"),
    [
        (("a", "b"), "gpu:2", "a b", ""),
        (("b", "a"), "gpu:2", "b a", ""),
        (("a",), "gpu:1", "a", "cpus=8 memory=32256 gres=gpu:1 devices=a"),
        (("a", "c"), "gpu:2", "a c", "cpus=8 memory=32256 gres=gpu:2 devices=a;c"),  # b is sick, c was healed
        (("a", "-"), "gpu:2", "", ""),  # without a name it can be no device of the driver
        ((), "", "", "cpus=8 memory=32256 gres="),
        (None, "", "", ""),  # the driver is away: the last offer stands
    ],
)
def test_devices_of_a_driver_are_offered_by_name(devices, gres, words, offers_now):
    nodeset = make_nodeset(gpu=Gpu(driver="gpu.example.com"))

    def offering(found):
        known = {"gpu.example.com": tuple(NodeDevice(word=word) for word in found)} if found is not None else {}
        return msgspec.structs.replace(make_node(1, allocatable={"nvidia.com/gpu": "8"}), devices=known)

    found = env(build(nodeset, offering(devices)))
    assert (found["SUNKPY_GRES"], found["SUNKPY_DEVICES"]) == (gres, words)
    made = build(nodeset, offering(("a", "b")))["metadata"]["annotations"]
    pod = make_pod(nodeset, 1, annotations=made)
    assert changed_offer(nodeset, offering(devices), pod) == offers_now


def test_a_slurmd_pod_that_does_not_say_for_which_devices_it_was_made_is_not_replaced():
    nodeset = make_nodeset(gpu=Gpu(driver="gpu.example.com"))
    node = msgspec.structs.replace(make_node(1), devices={"gpu.example.com": (NodeDevice(word="a"),)})
    old = make_pod(nodeset, 1, annotations={names.ANNOTATION_OFFERED: "cpus=8 memory=32256 gres=gpu:1"})
    assert changed_offer(nodeset, node, old) == ""


A100, L40S, SLICE = ({"productName": "A100"}, {"productName": "L40S"}, {"productName": "A100", "profile": "1g.5gb"})
BY_DRIVER = Gpu(
    driver="gpu.example.com",
    types=(
        GpuType(type="1g.5gb", attributes={"profile": "1g.5gb"}),
        GpuType(type="a100", attributes={"productName": "A100"}),
        GpuType(type="l40s", attributes={"productName": "L40S"}),
    ),
)
BY_RESOURCE = Gpu(
    types=(GpuType(type="a100", resource="nvidia.com/gpu"), GpuType(type="1g.5gb", resource="nvidia.com/mig-1g.5gb"))
)


@pytest.mark.parametrize(
    ("devices", "gres", "words"),
    [
        ([A100, L40S, A100], "gpu:a100:2,gpu:l40s:1", "d0 d2;d1"),
        ([A100, SLICE, SLICE], "gpu:1g.5gb:2,gpu:a100:1", "d1 d2;d0"),
        ([{"productName": "H100"}], "", ""),
    ],
)
def test_devices_of_a_driver_are_offered_by_the_first_type_that_they_fit(devices, gres, words):
    known = tuple(NodeDevice(word=f"d{at}", attributes=each) for at, each in enumerate(devices))
    node = msgspec.structs.replace(make_node(1), devices={"gpu.example.com": known})
    found = env(build(make_nodeset(gpu=BY_DRIVER), node))
    assert (found["SUNKPY_GRES"], found["SUNKPY_DEVICES"]) == (gres, words)


@pytest.mark.parametrize(
    ("whole", "slices", "gres"),
    [("4", "7", "gpu:a100:4,gpu:1g.5gb:7"), ("0", "7", "gpu:1g.5gb:7"), ("0", "0", "")],
)
def test_resources_are_offered_by_their_types_in_one_order(whole, slices, gres):
    node = make_node(1, allocatable={"nvidia.com/gpu": whole, "nvidia.com/mig-1g.5gb": slices})
    assert gres_offered(make_nodeset(gpu=BY_RESOURCE), node) == gres


def test_a_type_of_which_the_driver_does_not_say_each_takes_no_names_of_another():
    known = (NodeDevice(word="-", attributes=SLICE), NodeDevice(word="d1", attributes=A100))
    node = msgspec.structs.replace(make_node(1), devices={"gpu.example.com": known})
    assert env(build(make_nodeset(gpu=BY_DRIVER), node))["SUNKPY_DEVICES"] == ";d1"


BY_LABEL = Gpu(type_label="nvidia.com/gpu.product")


@pytest.mark.parametrize(
    ("product", "gres"),
    [
        ("NVIDIA-H100-80GB-HBM3", "gpu:nvidia-h100-80gb-hbm3:8"),
        ("Tesla-T4", "gpu:tesla-t4:8"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "gpu:1g.5gb:8"),  # as list-gpus calls these slices
    ],
)
def test_a_label_says_the_type_of_those_that_have_none(product, gres):
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "8"}
    node = make_node(1, labels=labels, allocatable={"nvidia.com/gpu": "8"})
    assert gres_offered(make_nodeset(gpu=BY_LABEL), node) == gres
    assert gres_offered(make_nodeset(gpu=Gpu()), node) == "gpu:8"


@pytest.mark.parametrize(
    ("labels", "offers_now"),
    [
        ({"nvidia.com/gpu.product": "Tesla-T4"}, ""),
        ({}, ""),  # the discovery takes its labels away when it restarts
        ({"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.count": "1"}, ""),  # one of two models
        ({"nvidia.com/gpu.product": "NVIDIA-L4"}, "cpus=8 memory=32256 gres=gpu:nvidia-l4:2"),
    ],
)
def test_the_type_stands_until_a_label_says_another(labels, offers_now):
    nodeset = make_nodeset(gpu=BY_LABEL)

    def offering(labels):
        return make_node(1, labels=labels, allocatable={"nvidia.com/gpu": "2"})

    made = build(nodeset, offering({"nvidia.com/gpu.product": "Tesla-T4"}))["metadata"]["annotations"]
    assert changed_offer(nodeset, offering(labels), make_pod(nodeset, 1, annotations=made)) == offers_now


def test_a_new_field_of_the_spec_rolls_nobody_who_does_not_set_it():
    assert template_hash(make_nodeset(gpu=Gpu(type="h100"))) == "d6c5ac06fa"
    assert template_hash(make_nodeset(gpu=Gpu())) == template_hash(make_nodeset(gpu=Gpu(driver="")))
    assert template_hash(make_nodeset(gpu=Gpu())) != template_hash(make_nodeset(gpu=Gpu(driver="gpu.example.com")))


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        ("cpus=8 memory=9 gres=gpu:2", "cpus=8 memory=9 gres=gpu:1", "its node offers gres=gpu:1 in place of gpu:2"),
        ("cpus=8 memory=9 gres=gpu:2", "cpus=8 memory=9 gres=", "its node offers gres= in place of gpu:2"),
        ("cpus=8 memory=9 gres=", "cpus=8 memory=9 gres=gpu:2", "its node offers gres=gpu:2 in place of none"),
        (
            "cpus=8 memory=9 gres=",
            "cpus=4 memory=5 gres=",
            "its node offers cpus=4 in place of 8, its node offers memory=5 in place of 9",
        ),
        ("cpus=8 memory=9 gres=", "", ""),
        (
            "cpus=8 memory=9 gres=gpu:2 devices=a;b",
            "cpus=8 memory=9 gres=gpu:2 devices=a;c",
            "its node offers devices=c in place of b",
        ),
        (
            "cpus=8 memory=9 gres=gpu:2 devices=a;b",
            "cpus=8 memory=9 gres=gpu:1 devices=a",
            "its node offers gres=gpu:1 in place of gpu:2, its node offers devices= in place of b",
        ),
    ],
)
def test_why_a_slurmd_pod_is_replaced_is_said_to_people(before, now, says):
    pod = make_pod(make_nodeset(), 1, annotations={names.ANNOTATION_OFFERED: before})
    assert explain_offer(pod, now) == says
