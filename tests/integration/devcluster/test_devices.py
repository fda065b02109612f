"""Devices by Dynamic Resource Allocation: what a pod with a claim gets, and what a dead driver holds back."""

import re
from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.kubectl import Kubectl
from devcluster.node import answers
from tests.integration.devcluster.pods import kubectl_of, probe_pod

pytestmark = pytest.mark.integration

TEMPLATE = "one-gpu"


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


def devices(kubectl: Kubectl, pod: str) -> set[str]:
    """Names of the devices in the environment of a pod's container."""
    return set(re.findall(r"^GPU_DEVICE_\d+=(\S+)$", kubectl("exec", pod, "--", "/probe", "env"), re.MULTILINE))


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


def test_each_kubelet_has_a_folder_of_device_plugins_of_its_own(cluster: Cluster):
    assert all(answers(each.device_plugins / "kubelet.sock") for each in cluster.nodes())
