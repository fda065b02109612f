"""What the scheduler's token is worth, on a real apiserver with the rights and the policy of the chart: what the
scheduler writes passes, what a thief would write does not.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from devcluster.waiting import wait_until
from sunkpy.core.gang.devices.chosen import Chosen
from sunkpy.core.gang.devices.made import claim_to_make, requests_of
from sunkpy.core.gang.identity import BindingNote, GangId
from sunkpy.core.gang.job.ends import EndCause
from sunkpy.core.model.devices import DEVICE_CLASS, PROTECTION, AllocatedDevice, DeviceId, ResourceClaim
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.states import JobId
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.scheduler.devices.allocate import Allocator, DevicePlan
from sunkpy.scheduler.devices.handout import Handout
from sunkpy.scheduler.devices.made import ClaimMaker, Refused
from sunkpy.scheduler.devices.watch import Devices
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.pods.writer import PodWriter
from sunkpy.scheduler.record import SentBinding
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.slurm import Slurm
from tests.integration.apiserver import Apiserver, alone
from tests.integration.gates import ALWAYS_FOR_RESOURCES
from tests.unit.charts.rendering import render

pytestmark = pytest.mark.integration

SCHEDULER = "scheduler"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
PODS = "/api/v1/namespaces/default/pods"
DEVICES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
GPUS = "gpu.example.com"
ALIAS = "other-name"
SLURM = SlurmSettings(url="http://127.0.0.1:1", token_file="unused")
NOTE = BindingNote(job=JobId(7), gang=GangId(namespace="default", name="g", uid="u"), seat="worker/0")


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    users = {SCHEDULER: "system:serviceaccount:research:demo-scheduler"}
    with alone(tmp_path_factory.mktemp("apiserver"), users) as apiserver:
        apiserver.install(
            render("slurm", {"scheduler": {"aliases": [ALIAS], "deviceClasses": {GPUS: "gpu"}}}),
            "scheduler-name:demo",
            "-scheduler-token",
        )
        apiserver.make_account("default")
        make_pod(apiserver, "foreign", schedulerName="default-scheduler")
        refused = wait_until(lambda: tried(apiserver, "PATCH", "foreign", {}).status_code == 403, timeout_s=60)
        assert refused
        yield apiserver


def make_pod(apiserver: Apiserver, name: str, *, devices: str = "", **spec: object) -> Pod:
    whole = {
        "schedulerName": "demo",
        "automountServiceAccountToken": False,
        "containers": [{"name": "c", "image": "i"}],
    }
    noted = {"sunkpy.dev/devices": devices} if devices else {}
    metadata = {"name": name, "labels": {"app": "x"}, "annotations": {"team": "chem"} | noted}
    body = {"metadata": metadata, "spec": whole | spec}
    return msgspec.json.decode(apiserver.make(PODS, body), type=Pod)


def tried(apiserver: Apiserver, method: str, where: str, body: object) -> httpx.Response:
    return apiserver.ask(SCHEDULER, method, f"{PODS}/{where}?dryRun=All", body)


@pytest.mark.parametrize("scheduler", ["demo", ALIAS])
async def test_the_scheduler_does_its_work(apiserver: Apiserver, scheduler: str) -> None:
    pod = make_pod(apiserver, f"work-{scheduler}", schedulerName=scheduler)
    async with await Kube.connect(apiserver.kubeconfig(SCHEDULER)) as kube:
        writer = PodWriter(kube)
        await writer.note(pod, {"sunkpy.dev/asked": "{}"})
        await writer.not_scheduled(pod, "it waits")
        await writer.bind(SentBinding.of(pod, node="n1", note=NOTE))
        bound = await writer.read(pod.key, pod.uid)
        assert bound is not None
        assert bound.spec.node_name == "n1"
        assert NOTE.annotations.items() <= bound.annotations.items()
        await writer.note_devices(pod, "0,1")
        await writer.note(pod, {"sunkpy.dev/asked": None})
        for reason in ("PreemptionByScheduler", "SlurmJobCancelled"):
            assert await writer.evict(pod, EndCause(reason=reason, message="why"), grace_s=30)
        await writer.explain_disruption(pod, reason="PreemptionByScheduler", message="why, in more words")
        assert await writer.delete(pod, grace_s=1)


async def test_it_chooses_the_node_of_a_claim(apiserver: Apiserver) -> None:
    make_claim(apiserver, "chosen")
    async with await Kube.connect(apiserver.kubeconfig(SCHEDULER)) as kube:
        body = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}
        await kube.patch(paths.claim("default", "chosen"), body)


async def test_it_reports_the_phase_of_a_pod_group(apiserver: Apiserver) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": schema}
    kinds = {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup", "listKind": "PodGroupList"}
    spec = {"group": "scheduling.volcano.sh", "scope": "Namespaced", "names": kinds, "versions": [version]}
    crd = {"metadata": {"name": "podgroups.scheduling.volcano.sh"}, "spec": spec}
    apiserver.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    groups = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 1},
    }
    assert wait_until(lambda: apiserver.ask("admin", "POST", groups, group).is_success, timeout_s=60, every_s=0.2)
    answer = apiserver.ask(SCHEDULER, "PATCH", f"{groups}/g", {"status": {"phase": "Running"}})
    assert answer.is_success, answer.text
    for body in ({"spec": {"minMember": 2}}, {"metadata": {"labels": {"x": "y"}}}):
        refused = apiserver.ask(SCHEDULER, "PATCH", f"{groups}/g", body)
        assert (refused.status_code, "the scheduler " in refused.json()["message"]) == (403, True), refused.text


def make_claim(apiserver: Apiserver, name: str) -> None:
    """Make a bound claim of a class whose volumes can grow, so that a larger volume can be requested."""
    made = {"metadata": {"name": name}, "provisioner": "x.example/y", "allowVolumeExpansion": True}
    apiserver.make("/apis/storage.k8s.io/v1/storageclasses", made)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": name}
    apiserver.make(CLAIMS, {"metadata": {"name": name}, "spec": spec})
    apiserver.ask("admin", "PATCH", f"{CLAIMS}/{name}/status", {"status": {"phase": "Bound"}})


OTHER_IMAGE = {"spec": {"containers": [{"name": "c", "image": "evil"}]}}
CONDITION = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    ("where", "body"),
    [
        ("", OTHER_IMAGE),
        ("", {"metadata": {"labels": {"app": "y"}}}),
        ("", {"metadata": {"labels": {"more": "y"}}}),
        ("", {"metadata": {"annotations": {"team": "y"}}}),
        ("", {"metadata": {"annotations": {"team": None}}}),
        ("", {"metadata": {"annotations": {"more": "y"}}}),
        ("", {"metadata": {"finalizers": ["x.example/y"]}}),
        ("", {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}}),
        ("/status", {"metadata": {"labels": {"app": "y"}}}),
        ("/status", {"metadata": {"annotations": {"team": "y"}}}),
        ("/status", {"status": {"phase": "Failed"}}),
        ("/status", {"status": {"podIPs": [{"ip": "10.0.0.1"}], "podIP": "10.0.0.1"}}),
        ("/status", {"status": {"conditions": [CONDITION]}}),
        ("/status", {"status": {"containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": True,
                                                       "restartCount": 0}]}}),
    ],
)  # fmt: skip
def test_a_thief_changes_nothing_else_of_a_pod(apiserver: Apiserver, where: str, body: object) -> None:
    if apiserver.ask("admin", "GET", f"{PODS}/target").status_code == 404:
        make_pod(apiserver, "target")
    refused = tried(apiserver, "PATCH", f"target{where}", body)
    assert (refused.status_code, "the scheduler " in refused.json()["message"]) == (403, True), refused.text
    answer = apiserver.ask("admin", "PATCH", f"{PODS}/target{where}?dryRun=All", body)
    assert answer.is_success, answer.text


@pytest.mark.parametrize(
    ("method", "where", "body"),
    [
        ("PATCH", "foreign", {"metadata": {"annotations": {"sunkpy.dev/asked": "{}"}}}),
        ("PATCH", "foreign", OTHER_IMAGE),
        ("PATCH", "foreign/status", {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}),
        ("DELETE", "foreign", None),
    ],
)
def test_a_thief_touches_no_pod_of_others(apiserver: Apiserver, method: str, where: str, body: object) -> None:
    refused = tried(apiserver, method, where, body)
    assert (refused.status_code, "may write only pods whose" in refused.json()["message"]) == (403, True)


@pytest.mark.parametrize("metadata", [{"annotations": {"team": "y"}}, {"labels": {"app": "y"}}])
def test_a_thief_brings_nothing_along_with_a_binding(apiserver: Apiserver, metadata: dict[str, object]) -> None:
    make_pod(apiserver, name := f"bound-{next(iter(metadata))}")
    body = {"metadata": {"name": name} | metadata, "target": {"kind": "Node", "name": "n1"}}
    assert tried(apiserver, "POST", f"{name}/binding", body).status_code == 403
    body["metadata"] = {"name": name}
    answer = tried(apiserver, "POST", f"{name}/binding", body)
    assert answer.is_success, answer.text


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "evil"}}},
        {"metadata": {"labels": {"x": "y"}}},
        {"metadata": {"finalizers": None}},
        {"spec": {"resources": {"requests": {"storage": "9Ti"}}}},
    ],
)
def test_a_thief_changes_nothing_else_of_a_claim(apiserver: Apiserver, body: object) -> None:
    if apiserver.ask("admin", "GET", f"{CLAIMS}/data").status_code == 404:
        make_claim(apiserver, "data")
    answer = apiserver.ask("admin", "PATCH", f"{CLAIMS}/data?dryRun=All", body)
    assert answer.is_success, answer.text
    refused = apiserver.ask(SCHEDULER, "PATCH", f"{CLAIMS}/data?dryRun=All", body)
    assert (refused.status_code, "the scheduler " in refused.json()["message"]) == (403, True), refused.text


# ------------------------------------------------------------------------------ claims for devices


def ask_for(
    apiserver: Apiserver,
    name: str,
    *,
    cls: str = GPUS,
    allocated: Mapping[str, object] | None = None,
    marked: bool = False,
) -> None:
    """A claim for one device; allocated by somebody else, or marked by the scheduler, if that is said."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": cls}}]
    apiserver.make(DEVICES, {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}})
    if allocated is not None:
        answer = apiserver.ask("admin", "PATCH", f"{DEVICES}/{name}/status", {"status": allocated})
        assert answer.is_success, answer.text
    if marked:
        answer = apiserver.ask(SCHEDULER, "PATCH", f"{DEVICES}/{name}", MARK)
        assert answer.is_success, answer.text


def given(*devices: str, users: Sequence[str] = ("p",), node: str = "n1") -> dict[str, object]:
    results = [{"request": "gpu", "driver": GPUS, "pool": node, "device": device} for device in devices]
    reserved = [{"resource": "pods", "name": name, "uid": f"uid-of-{name}"} for name in users]
    return {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}


def claim_now(apiserver: Apiserver, name: str) -> ResourceClaim:
    return msgspec.json.decode(apiserver.ask("admin", "GET", f"{DEVICES}/{name}").content, type=ResourceClaim)


def chosen(apiserver: Apiserver, name: str, pod: Pod, device: str, node: str = "n1") -> DevicePlan:
    return DevicePlan(chosen=[chosen_of(claim_now(apiserver, name), pod, "gpu", device, node)])


def chosen_of(claim: ResourceClaim, pod: Pod, request: str, device: str, node: str = "n1") -> Chosen:
    devices = (AllocatedDevice(request=request, driver=GPUS, pool=node, device=device),)
    return Chosen(claim=claim, pod=pod, node=node, devices=devices)


@contextlib.asynccontextmanager
async def allocating(apiserver: Apiserver) -> AsyncIterator[Allocator]:
    slurm = Slurm.connect(SLURM)
    async with await Kube.connect(apiserver.kubeconfig(SCHEDULER)) as kube:
        settings = SchedulerSettings(cluster="demo", slurm=SLURM, scheduler_name="demo", device_classes={GPUS: "gpu"})
        nodes = Informer(kube, paths.NODES, Node)
        devices = Devices(kube, settings, nodes, lambda *_: None, on_claim=lambda _: None, on_classes=lambda: None)
        devices._claims.synced.set()  # a list without claims; what it asks for counts
        pods = PodWriter(kube)
        maker = ClaimMaker(kube, devices, settings)
        yield Allocator(
            kube,
            slurm,
            devices,
            pods,
            SchedulerMetrics(CollectorRegistry()),
            keeps=lambda *_: None,
            slurmd_of=lambda _: None,
            handout=Handout(pods, resource="", gres="gpu"),
            maker=maker,
        )
    await slurm.close()


async def test_it_allocates_claims_and_takes_the_devices_of_unbound_pods_back(apiserver: Apiserver) -> None:
    """An allocation cannot change: for another node it is cleared and then written again."""
    ask_for(apiserver, "own")
    pod = make_pod(apiserver, "asks", resourceClaims=[{"name": "gpu", "resourceClaimName": "own"}])
    async with allocating(apiserver) as allocator:
        for node in ("n1", "n2"):
            await allocator.write(chosen(apiserver, "own", pod, "gpu-0", node))
            claim = claim_now(apiserver, "own")
            assert (claim.held, claim.is_for(pod.uid)) == ((DeviceId(GPUS, node, "gpu-0"),), True)
            assert (claim.metadata.finalizers, claim.annotations) == (
                (PROTECTION,),
                {"sunkpy.dev/allocated-by": "demo"},
            )
        await allocator.release(pod)
        assert not claim_now(apiserver, "own").is_allocated


async def test_a_pod_that_was_bound_after_all_keeps_its_devices_and_one_that_is_gone_is_left_to_kubernetes(
    apiserver: Apiserver,
) -> None:
    """The answer to a binding may be lost."""
    ask_for(apiserver, "kept")
    pod = make_pod(apiserver, "bound", resourceClaims=[{"name": "gpu", "resourceClaimName": "kept"}])
    async with allocating(apiserver) as allocator:
        await allocator.write(chosen(apiserver, "kept", pod, "gpu-0"))
        to = {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n1"}}
        apiserver.make(f"{PODS}/bound/binding", to)
        await allocator.release(pod)
        assert claim_now(apiserver, "kept").is_for(pod.uid)
        assert apiserver.ask("admin", "DELETE", f"{PODS}/bound?gracePeriodSeconds=0").is_success
        await allocator.release(pod)
        assert claim_now(apiserver, "kept").is_for(pod.uid)


async def test_a_claim_that_was_changed_since_it_was_read_gets_nothing(apiserver: Apiserver) -> None:
    ask_for(apiserver, "stale")
    pod = make_pod(apiserver, "asks-late", resourceClaims=[{"name": "gpu", "resourceClaimName": "stale"}])
    async with allocating(apiserver) as allocator:
        plan = chosen(apiserver, "stale", pod, "gpu-0")
        apiserver.ask("admin", "PATCH", f"{DEVICES}/stale", {"metadata": {"labels": {"team": "a"}}})
        with pytest.raises(errors.Conflict):
            await allocator.write(plan)
    assert not claim_now(apiserver, "stale").is_allocated


async def test_it_sees_that_somebody_has_rewritten_the_claim_of_a_running_pod(apiserver: Apiserver) -> None:
    """It asks the apiserver once more before it evicts the pod."""
    ask_for(apiserver, "edited")
    claims = [{"name": "gpu", "resourceClaimName": "edited"}]
    pod = make_pod(apiserver, "runs", devices="n1/gpu-8", nodeName="n1", resourceClaims=claims)
    async with allocating(apiserver) as allocator:
        await allocator.write(chosen(apiserver, "edited", pod, "gpu-8"))
        assert not await allocator.has_lost_devices(pod)
        for status in ({"allocation": None, "reservedFor": None}, given("gpu-9", users=["runs"])):
            assert apiserver.ask("admin", "PATCH", f"{DEVICES}/edited/status", {"status": status}).is_success
        assert await allocator.has_lost_devices(pod)


def claim_for(apiserver: Apiserver, name: str) -> tuple[Pod, ResourceClaim, DevicePlan]:
    """A pod that asks for a resource, the claim that is to be made for it, and the devices for that."""
    resource = f"{DEVICE_CLASS}{GPUS}"
    container = {"name": "c", "image": "i", "resources": {"limits": {resource: "1"}}}
    pod = make_pod(apiserver, name, containers=[container])
    claim = claim_to_make(pod, {resource: GPUS})
    assert claim is not None
    mappings = tuple(whose for whose, _ in requests_of(pod.spec, {resource: GPUS}))
    found = chosen_of(claim, pod, "container-0-request-0", "gpu-0")
    return pod, claim, DevicePlan(chosen=[msgspec.structs.replace(found, mappings=mappings)])


@pytest.mark.skipif(not ALWAYS_FOR_RESOURCES, reason="these claims have a gate, which is off here")
async def test_it_makes_the_claim_of_a_pod_that_asks_for_a_resource(apiserver: Apiserver) -> None:
    pod, claim, plan = claim_for(apiserver, "extended")
    async with allocating(apiserver) as allocator:
        await allocator.write(plan)
    made = claim_now(apiserver, claim.name)
    assert (made.metadata.finalizers, made.is_allocated) == ((PROTECTION,), True)
    assert [owner.uid for owner in made.metadata.owner_references] == [pod.uid]


@pytest.mark.skipif(ALWAYS_FOR_RESOURCES, reason="from Kubernetes 1.37 on the gate cannot be off")
async def test_an_apiserver_that_drops_for_whom_a_claim_was_made_is_seen(apiserver: Apiserver) -> None:
    """This apiserver has the gate for such claims off, and answers 200 all the same."""
    pod, claim, plan = claim_for(apiserver, "dropped")
    async with allocating(apiserver) as allocator:
        with pytest.raises(Refused, match="gate DRAExtendedResource is off"):
            await allocator.write(plan)
    made = claim_now(apiserver, claim.name)
    assert (made.metadata.finalizers, made.is_allocated) == ((PROTECTION,), False)
    assert [owner.uid for owner in made.metadata.owner_references] == [pod.uid]


OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
OWN_MADE = {
    "annotations": {"resource.kubernetes.io/extended-resource-claim": "true", "sunkpy.dev/allocated-by": "demo"},
    "finalizers": ["resource.kubernetes.io/delete-protection"],
    "ownerReferences": [OWNER],
}


@pytest.mark.parametrize(
    ("metadata", "request_"),
    [
        ({"annotations": {"sunkpy.dev/allocated-by": "demo"}}, {}),
        ({"annotations": OWN_MADE["annotations"] | {"team": "y"}}, {}),
        ({"labels": {"team": "y"}}, {}),
        ({"finalizers": ["x.example/y"]}, {}),
        ({"ownerReferences": []}, {}),
        ({"ownerReferences": [OWNER | {"kind": "Node"}]}, {}),
        ({}, {"deviceClassName": "others.example.com"}),
    ],
)
def test_a_thief_makes_no_other_claim(
    apiserver: Apiserver, metadata: dict[str, Any], request_: dict[str, object]
) -> None:
    def body(metadata: Mapping[str, Any], asked: Mapping[str, object]) -> dict[str, object]:
        requests = [{"name": "gpu", "exactly": {"deviceClassName": GPUS} | asked}]
        return {"metadata": {"name": "made"} | metadata, "spec": {"devices": {"requests": requests}}}

    refused = apiserver.ask(SCHEDULER, "POST", f"{DEVICES}?dryRun=All", body(OWN_MADE | metadata, request_))
    assert (refused.status_code, "the scheduler " in refused.json()["message"]) == (403, True), refused.text
    answer = apiserver.ask(SCHEDULER, "POST", f"{DEVICES}?dryRun=All", body(OWN_MADE, {}))
    assert answer.is_success, answer.text


MARK = {"metadata": {"annotations": {"sunkpy.dev/allocated-by": "demo"}}}
FREE: dict[str, object] = {"status": {"allocation": None, "reservedFor": None}}


@pytest.mark.parametrize(
    ("claim", "part", "body"),
    [
        ({"allocated": given("gpu-0")}, "", MARK),
        ({"allocated": given("gpu-0")}, "/status", FREE),
        ({}, "/status", {"status": given("gpu-0")}),  # not marked
        ({}, "", {"metadata": {"labels": {"x": "y"}}}),
        ({}, "", {"metadata": {"annotations": {"x": "y"}}}),
        ({}, "", {"metadata": {"finalizers": ["x.example/y"]}}),
        ({"marked": True, "cls": "others.example.com"}, "/status", {"status": given("gpu-0")}),
        ({"marked": True}, "/status", {"status": given("gpu-0", "gpu-1")}),
        ({"marked": True}, "/status", {"status": given("gpu-0", users=("p", "q"))}),
        ({"marked": True}, "/status", {"status": given("gpu-0", users=())}),
    ],
)
def test_a_thief_changes_no_claim_for_devices_of_others(
    apiserver: Apiserver, claim: dict[str, Any], part: str, body: object, request: pytest.FixtureRequest
) -> None:
    name = f"target-{request.node.callspec.indices['claim']}"
    ask_for(apiserver, name, **claim)
    refused = apiserver.ask(SCHEDULER, "PATCH", f"{DEVICES}/{name}{part}?dryRun=All", body)
    assert (refused.status_code, "the scheduler " in refused.json()["message"]) == (403, True), refused.text
    answer = apiserver.ask("admin", "PATCH", f"{DEVICES}/{name}{part}?dryRun=All", body)
    assert answer.is_success, answer.text
