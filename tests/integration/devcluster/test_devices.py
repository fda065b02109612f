"""Devices by Dynamic Resource Allocation: what a pod with a claim gets, and what a dead driver holds back."""

import re
from collections.abc import Iterator

import msgspec
import pytest

from devcluster import Cluster
from devcluster.dra import DRIVER, RESOURCE
from devcluster.kubectl import Kubectl
from devcluster.layout import CLAIMS_FOR_RESOURCES
from devcluster.node import answers
from devcluster.waiting import wait_until
from sunkpy.core.gang.devices.chosen import Chosen
from sunkpy.core.gang.devices.made import claim_to_make, requests_of
from sunkpy.core.model.devices import AllocatedDevice
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.placement.admission import Admission, Verdict
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.scheduler.devices.made import ClaimMaker
from sunkpy.scheduler.devices.watch import Devices
from sunkpy.scheduler.settings import SchedulerSettings
from tests.integration.devcluster.pods import kubectl_of, probe_pod
from tests.integration.gates import ALWAYS_FOR_RESOURCES

pytestmark = pytest.mark.integration

TEMPLATE = "one-gpu"
SLURM = SlurmSettings(url="http://127.0.0.1:1", token_file="unused")


@pytest.fixture(scope="module", autouse=True)
def _template(cluster: Cluster) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": TEMPLATE},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    kubectl_of(cluster).apply(template)


@pytest.fixture(autouse=True)
def _no_pods(kubectl: Kubectl) -> Iterator[None]:
    yield
    kubectl("delete", "pods", "--all", "--wait", timeout_s=90)


def with_a_claim(name: str, *, node: str = "node-1") -> dict:
    pod = probe_pod(
        name,
        node=node,
        container={"resources": {"claims": [{"name": "gpu"}]}},
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}],
    )
    # With no grace the apiserver forgets the pod, and frees its claim, while its container still runs.
    pod["spec"]["terminationGracePeriodSeconds"] = 1
    return pod


def ready(kubectl: Kubectl, *pods: str, timeout_s: int = 60) -> None:
    names = (f"pod/{pod}" for pod in pods)
    kubectl("wait", "--for=condition=Ready", *names, f"--timeout={timeout_s}s", timeout_s=timeout_s + 10)


def devices(kubectl: Kubectl, pod: str, container: str = "probe") -> set[str]:
    """Names of the devices in the environment of a pod's container."""
    environment = kubectl("exec", pod, "-c", container, "--", "/probe", "env")
    return set(re.findall(r"^GPU_DEVICE_\d+=(\S+)$", environment, re.MULTILINE))


def allocated(kubectl: Kubectl, pod: str) -> set[str]:
    """Names of the devices in the claim of a pod."""
    claim = kubectl.json("pod", pod)["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    results = kubectl.json("resourceclaim", claim)["status"]["allocation"]["devices"]["results"]
    return {result["device"] for result in results}


def test_pods_of_a_node_get_the_devices_of_their_claims_and_no_other(kubectl: Kubectl):
    kubectl.apply(with_a_claim("a"), with_a_claim("b"), probe_pod("none", node="node-1"))
    ready(kubectl, "a", "b", "none")
    of = {pod: devices(kubectl, pod) for pod in ("a", "b", "none")}
    assert of["a"] | of["b"] == {"gpu-0", "gpu-1"}
    assert {pod: allocated(kubectl, pod) for pod in ("a", "b")} == {pod: of[pod] for pod in ("a", "b")}
    assert of["none"] == set()


def test_a_device_is_free_for_the_next_pod(kubectl: Kubectl):
    kubectl.apply(with_a_claim("a"), with_a_claim("b"))
    ready(kubectl, "a", "b")
    mine = devices(kubectl, "a")
    kubectl.apply(with_a_claim("c"))
    kubectl("delete", "pod", "a", "--wait", timeout_s=60)
    ready(kubectl, "c")
    assert devices(kubectl, "c") == mine


def test_without_its_driver_a_pod_waits_and_runs_when_it_is_back(cluster: Cluster, kubectl: Kubectl):
    cluster.fault.driver_stop("node-1")
    assert cluster.processes()["node-1-dra-driver"] is None
    kubectl.apply(with_a_claim("a"), with_a_claim("elsewhere", node="node-2"))
    ready(kubectl, "elsewhere")
    assert kubectl.json("pod", "a")["status"]["phase"] == "Pending"
    cluster.fault.driver_start("node-1")
    ready(kubectl, "a")
    assert len(devices(kubectl, "a")) == 1


def test_devices_are_published_again_when_the_kubelet_was_away(cluster: Cluster, kubectl: Kubectl):
    cluster.fault.kubelet_stop("node-1")
    cluster.fault.kubelet_start("node-1")
    kubectl.apply(with_a_claim("a"))
    ready(kubectl, "a", timeout_s=120)


def maker_with(kube: Kube) -> ClaimMaker:
    settings = SchedulerSettings(cluster="x", slurm=SLURM, kubelet_account="default", device_classes={DRIVER: "gpu"})
    nodes = Informer(kube, paths.NODES, Node)
    known = Devices(kube, settings, nodes, lambda *_: None, on_claim=lambda _: None, on_classes=lambda: None)
    return ClaimMaker(kube, known, settings)


async def blind(kube: Kube, name: str) -> dict[str, Admission]:
    return await maker_with(kube).blind({name: await kube.get(paths.node(name), Node)})


@pytest.mark.skipif(ALWAYS_FOR_RESOURCES, reason="from Kubernetes 1.37 on the gate cannot be off")
async def test_a_kubelet_with_the_gate_off_says_so(cluster: Cluster):
    config = cluster.nodes()[1].home / "kubelet.yaml"
    text = config.read_text()
    assert f"{CLAIMS_FOR_RESOURCES}: true" in text
    async with await Kube.connect(cluster.kubeconfig) as kube:
        cluster.fault.kubelet_stop("node-2")
        (admission,) = (await blind(kube, "node-2")).values()
        assert (admission.verdict, "does not say" in admission.why) == (Verdict.WAIT, True)
        config.write_text(text.replace(f"{CLAIMS_FOR_RESOURCES}: true", f"{CLAIMS_FOR_RESOURCES}: false"))
        try:
            cluster.fault.kubelet_start("node-2")
            (admission,) = (await blind(kube, "node-2")).values()
            assert (admission.verdict, f"gate {CLAIMS_FOR_RESOURCES} off" in admission.why) == (Verdict.REFUSE, True)
        finally:
            cluster.fault.kubelet_stop("node-2")
            config.write_text(text)
            cluster.fault.kubelet_start("node-2")


async def test_a_pod_that_asks_for_a_resource_has_the_devices_of_the_claim_that_was_made_for_it(
    cluster: Cluster, kubectl: Kubectl
):
    """Two containers, each with its own: the kubelet says that it knows such claims, and keeps to them."""
    of_each = {"resources": {"limits": {RESOURCE: "1"}}}
    pod = probe_pod("extended", node="node-1", container=of_each, schedulerName="slurm")
    pod["spec"] |= {"terminationGracePeriodSeconds": 1}
    pod["spec"]["containers"] += [
        pod["spec"]["containers"][0] | {"name": "other", "command": ["/probe", "serve", ":81"]}
    ]
    kubectl.apply(pod)
    made = msgspec.convert(kubectl.json("pod", "extended"), Pod)
    claim = claim_to_make(made, {RESOURCE: DRIVER})
    assert claim is not None
    async with await Kube.connect(cluster.kubeconfig) as kube:
        maker = maker_with(kube)
        assert await blind(kube, "node-1") == {}
        given = [
            AllocatedDevice(request=f"container-{at}-request-0", driver=DRIVER, pool="node-1", device=f"gpu-{1 - at}")
            for at in range(2)
        ]
        mappings = tuple(whose for whose, _ in requests_of(made.spec, {RESOURCE: DRIVER}))
        chosen = Chosen(claim=claim, pod=made, node="node-1", devices=tuple(given), mappings=mappings)
        written = await maker.make(chosen)
        await kube.patch(paths.status(paths.resource_claim(*written.key)), {"status": chosen.status({})})
        await maker.tell(chosen)
        await kube.bind(*made.key, uid=made.uid, node="node-1", annotations={})
    ready(kubectl, "extended")
    assert [devices(kubectl, "extended", container) for container in ("probe", "other")] == [{"gpu-1"}, {"gpu-0"}]
    kubectl("delete", "pod", "extended", "--wait", timeout_s=60)
    assert wait_until(lambda: "extended" not in kubectl("get", "resourceclaims"), timeout_s=60)


def test_each_kubelet_has_a_folder_of_device_plugins_of_its_own(cluster: Cluster):
    assert all(answers(each.device_plugins / "kubelet.sock") for each in cluster.nodes())
