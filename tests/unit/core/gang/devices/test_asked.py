"""What claims ask of Slurm, and which of them are refused."""

import msgspec
import pytest

from sunkpy.core.gang.devices.asked import Claimed, claim_names, missing_claim, refused_claims, with_devices
from sunkpy.core.gang.gang import Gang, Member, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.request import Policy, plan_job
from sunkpy.core.gang.limits import within_limits
from sunkpy.core.model.devices import CLAIMED, ResourceClaimSpec
from sunkpy.core.model.objects import PodClaim, PodSpec
from tests.unit.core.gang.devices.claims import CLASSES, DRIVER, claim, pod_with, request

RESOURCES = {"nvidia.com/gpu": "gpu"}
COUNTED = RESOURCES | {CLAIMED + name: gres for name, gres in CLASSES.items()}


def gang_of(*pods, shape=None, seats=0):
    members = tuple(Member(pod=pod, index=index) for index, pod in enumerate(pods))
    role = Role(name="worker", seats=seats or len(pods), first=len(pods), members=members, shape=shape)
    return Gang(id=GangId(namespace="default", name="train", uid="u"), roles=(role,))


def known(*of_pods, **more):
    claims = {pod.uid: {each.name: each for each in claims} for pod, *claims in of_pods}
    return Claimed(classes=CLASSES, claims=claims, **more)


def asked(gang, claimed):
    request = plan_job(within_limits(gang, gpu_resources=RESOURCES, claimed=claimed), Policy(gpu_resources=COUNTED))
    return request.gres_per_node or request.gres_per_task


def test_slurm_is_asked_for_the_devices_of_all_claims_of_a_pod():
    pod = pod_with("a", "b")
    claims = (claim("a", request("one"), request("two", 2)), claim("b", request("nic", 1, "nic.example.com")))
    assert asked(gang_of(pod), known((pod, *claims))) == "gres/gpu:3,gres/nic:1"


def test_each_seat_of_a_gang_has_room_for_the_devices_of_any_pod():
    pods = [pod_with("a", uid="1"), pod_with("b", uid="2")]
    claimed = known((pods[0], claim("a")), (pods[1], claim("b", request(count=2))))
    assert asked(gang_of(*pods), claimed) == "gres/gpu:2"


def test_a_seat_without_a_pod_has_room_for_the_devices_of_its_template():
    template = msgspec.convert({"devices": {"requests": [request(count=4)]}}, ResourceClaimSpec)
    shape = PodSpec(resource_claims=(PodClaim(name="gpu", resource_claim_template_name="four"),))
    pod = pod_with(uid="1")
    assert asked(gang_of(pod, shape=shape, seats=2), known(templates={"four": template})) == "gres/gpu:4"


def test_devices_that_are_allocated_one_by_one_need_no_whole_nodes():
    pod = pod_with("a")
    made = within_limits(gang_of(pod), gpu_resources=RESOURCES, claimed=known((pod, claim("a"))))
    assert not plan_job(made, Policy(gpu_resources=COUNTED)).whole_nodes


def test_a_gang_without_claims_is_the_same_one():
    gang = gang_of(pod_with())
    assert with_devices(gang, Claimed(classes=CLASSES)) is gang


@pytest.mark.parametrize(
    ("requests", "devices", "why"),
    [
        (
            [request(cls="tpu")],
            {},
            "request gpu: scheduler.deviceClasses names no GRES for class tpu, only for gpu.example.com, "
            "nic.example.com",
        ),
        (
            [request(allocationMode="All")],
            {},
            "request gpu has allocationMode All, and Slurm has to know how many: ask for a count",
        ),
        ([request(adminAccess=True)], {}, "request gpu asks for adminAccess, which is not for workloads of Slurm"),
        (
            [request(selectors=[{"cel": {"expression": "true"}}])],
            {},
            "request gpu has selectors (CEL), which Slurm cannot evaluate: ask for a class of such devices",
        ),
        (
            [request(capacity={"requests": {"memory": "1Gi"}})],
            {},
            "request gpu asks for a part of a device (capacity), and Slurm gives whole ones",
        ),
        (
            [{"name": "any", "firstAvailable": [{"deviceClassName": DRIVER}]}],
            {},
            "request any does not use `exactly`, and Slurm has to know what is wanted: ask for exactly one class",
        ),
        (
            [request()],
            {"constraints": [{"matchAttribute": "numa"}]},
            "it has constraints, and Slurm does not know what devices have in common: leave them out",
        ),
        ([request(selectors=[])], {}, ""),
    ],
)
def test_what_of_a_claim_cannot_be_had(requests, devices, why):
    pod = pod_with("c")
    says = f"claim c of pod pod-p: {why}" if why else ""
    assert refused_claims(gang_of(pod), known((pod, claim("c", *requests, **devices))), RESOURCES) == says


@pytest.mark.parametrize(
    ("of_claim", "why"),
    [
        (
            {"user": "other", "devices": ["gpu-1"]},
            "claim c of pod pod-p is allocated by somebody else, for pods pod-other: it can be used again when they "
            "have ended",
        ),
        (
            {"devices": ["gpu-1"]},
            "claim c of pod pod-p is allocated by somebody else, for nobody yet: it can be used again when they "
            "have ended",
        ),
        ({"user": "p", "devices": ["gpu-1"]}, ""),
    ],
)
def test_a_claim_is_for_one_pod_at_a_time(of_claim, why):
    pod = pod_with("c")
    assert refused_claims(gang_of(pod), known((pod, claim("c", **of_claim))), RESOURCES) == why


def test_a_claim_that_is_being_deleted_is_nobodys():
    pod, going = pod_with("c"), claim("c")
    meta = msgspec.structs.replace(going.metadata, deletion_timestamp="2026-11-24T20:00:00Z")
    going = msgspec.structs.replace(going, metadata=meta)
    assert refused_claims(gang_of(pod), known((pod, going)), RESOURCES) == "claim c of pod pod-p is being deleted"


def test_pods_of_a_gang_may_not_share_a_claim():
    pods = [pod_with("c", uid="1"), pod_with("c", uid="2")]
    says = "pods pod-1 and pod-2 share claim c: give each one of its own, by a template"
    assert refused_claims(gang_of(*pods), known(*((pod, claim("c")) for pod in pods)), RESOURCES) == says


def test_devices_come_by_a_claim_or_by_a_count():
    pod = pod_with("c", requests={"nvidia.com/gpu": "1"})
    says = "pod pod-p asks for gpu by a claim and as a resource: use only one of them"
    assert refused_claims(gang_of(pod), known((pod, claim("c"))), RESOURCES) == says


def test_devices_of_two_types_come_by_one_way_as_well():
    """With a count of any type beside, Slurm could not say which are the claim's."""
    pod = pod_with("c", requests={"nvidia.com/gpu": "1"})
    claimed = msgspec.structs.replace(known((pod, claim("c"))), classes={DRIVER: "gpu:a100"})
    says = "pod pod-p asks for gpu by a claim and as a resource: use only one of them"
    assert refused_claims(gang_of(pod), claimed, {"nvidia.com/gpu": "gpu:l40s"}) == says


def test_a_class_may_stand_for_a_type():
    pod = pod_with("c")
    claimed = msgspec.structs.replace(known((pod, claim("c", request(count=2)))), classes={DRIVER: "gpu:a100"})
    made = within_limits(gang_of(pod), gpu_resources=RESOURCES, claimed=claimed)
    assert plan_job(made, Policy(gpu_resources={CLAIMED + DRIVER: "gpu:a100"})).gres_per_node == "gres/gpu:a100:2"


def test_a_pod_on_a_node_keeps_what_it_has():
    pod = pod_with("c", node="node-1")
    gang = gang_of(pod)
    assert refused_claims(gang, known((pod, claim("c", user="other"))), RESOURCES) == ""
    assert refused_claims(gang, None, RESOURCES) == ""


@pytest.mark.parametrize(
    ("pod", "names", "missing"),
    [
        (pod_with("a"), {"a": "a"}, "ResourceClaim a of pod pod-p"),
        (pod_with("a", template="t"), {"a": ""}, "claim a of pod pod-p"),
        (
            pod_with("a", template="t", made=[("a", "web-a-x7")]),
            {"a": "web-a-x7"},
            "ResourceClaim web-a-x7 of pod pod-p",
        ),
        (pod_with("a", template="t", made=[("a", "")]), {}, ""),
    ],
)
def test_a_pod_waits_for_its_claims(pod, names, missing):
    assert claim_names(pod) == names
    assert missing_claim(pod, {}) == missing
    assert missing_claim(pod, {"a": claim("a")}) == ""
