"""A cluster that is up: what a person can expect of it."""

import base64
import json
import urllib.request
from pathlib import Path

import pytest

from devcluster import Cluster, DevclusterError
from devcluster.binaries import KUBERNETES_VERSION
from devcluster.kubectl import Kubectl
from devcluster.shell import CommandFailed
from devcluster.waiting import wait
from tests.integration.devcluster.pods import kubectl_of, probe_pod

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", autouse=True)
def _pods(cluster: Cluster) -> None:
    """A claim, two pods on node-1 and one on node-2 that share it, and a Service in front of each node's."""
    kubectl = kubectl_of(cluster)
    shared = {
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "shared"}}],
        "container": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "shared"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    services = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]},
        }
        for name in ("a", "b")
    ]
    kubectl.apply(
        claim,
        *services,
        probe_pod("a", node="node-1", **json.loads(json.dumps(shared))),
        probe_pod("a2", node="node-1"),
        probe_pod("b", node="node-2", **shared),
    )
    kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")


def test_nodes_are_ready_and_dressed(cluster: Cluster, kubectl: Kubectl):
    nodes = {item["metadata"]["name"]: item for item in kubectl.json("nodes")["items"]}
    assert set(nodes) == {"node-1", "node-2"}
    assert nodes["node-2"]["metadata"]["labels"]["zone"] == "b"
    assert {item["status"]["allocatable"]["nvidia.com/gpu"] for item in nodes.values()} == {"2"}
    assert {item["status"]["allocatable"]["cpu"] for item in nodes.values()} == {"7"}
    assert {item["status"]["nodeInfo"]["kubeletVersion"] for item in nodes.values()} == {f"v{KUBERNETES_VERSION}"}


@pytest.mark.parametrize(
    ("pod", "url", "answer"),
    [
        ("a", "http://b", "b"),  # Service on another node
        ("b", "http://a.default.svc.cluster.local", "a"),
        ("a2", "http://a", "a"),  # Service on the same node: the reply must come back through it
        ("a", "http://a.default", "a"),  # itself, through its Service
    ],
)
def test_pods_reach_each_other_by_name(kubectl: Kubectl, pod: str, url: str, answer: str):
    wait(
        lambda: kubectl("exec", pod, "--", "/probe", "get", url) == answer,
        timeout_s=60,
        what=f"{pod} -> {url}",
    )


def test_this_machine_reaches_pods_and_services(kubectl: Kubectl):
    for address in (
        f"{kubectl.json('pod', 'b')['status']['podIP']}:8080",
        kubectl.json("service", "b")["spec"]["clusterIP"],
    ):
        with urllib.request.urlopen(f"http://{address}", timeout=60) as answer:
            assert answer.read() == b"b"


def test_a_volume_is_shared_by_nodes_and_goes_with_its_claim(cluster: Cluster, kubectl: Kubectl):
    kubectl("exec", "a", "--", "/probe", "write", "/v/file", "from node-1")
    assert kubectl("exec", "b", "--", "/probe", "read", "/v/file") == "from node-1"

    one_off = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "one-off"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    kubectl.apply(one_off)
    kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/one-off", "--timeout=60s")
    volume = kubectl.json("pvc", "one-off")["spec"]["volumeName"]
    folder = cluster.layout.volumes / volume
    assert folder.is_dir()
    kubectl("delete", "pvc", "one-off")
    wait(lambda: not folder.exists(), timeout_s=60, what="the folder goes")
    wait(lambda: not kubectl("get", "pv", volume, "--ignore-not-found"), timeout_s=60, what="the volume goes")


def test_a_pods_token_says_on_which_node_it_runs(kubectl: Kubectl):
    token = kubectl("exec", "b", "--", "/probe", "read", "/var/run/secrets/kubernetes.io/serviceaccount/token")
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["kubernetes.io"]["node"]["name"] == "node-2"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = json.loads(kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(review)))
    assert answer["status"]["user"]["extra"]["authentication.kubernetes.io/node-name"] == ["node-2"]


def test_rights_are_checked(kubectl: Kubectl):
    with pytest.raises(CommandFailed) as refused:
        kubectl("auth", "can-i", "list", "nodes", "--as=system:serviceaccount:default:default")
    assert refused.value.code == 1
    assert kubectl("auth", "can-i", "list", "nodes") == "yes\n"


def test_a_gpu_is_counted(kubectl: Kubectl):
    pods = [
        probe_pod(f"gpu-{n}", node="node-1", container={"resources": {"limits": {"nvidia.com/gpu": "1"}}})
        for n in range(3)
    ]
    kubectl.apply(*pods)

    def phases() -> list[str]:
        return sorted(kubectl.json("pod", f"gpu-{n}")["status"]["phase"] for n in range(3))

    wait(lambda: phases() == ["Pending", "Running", "Running"], timeout_s=60, what="two of three fit")
    kubectl("delete", "pod", "gpu-0", "gpu-1", "gpu-2", "--now")


def test_an_image_is_loaded_once(cluster: Cluster, probe: Path):
    assert cluster.load([probe]) == {"node-1": [], "node-2": []}


def test_up_again_changes_nothing(cluster: Cluster):
    before = cluster.processes()
    assert all(before.values())
    cluster.up()
    assert cluster.processes() == before


def test_a_cluster_does_not_shrink(cluster: Cluster):
    with pytest.raises(DevclusterError, match="cannot shrink to 1"):
        cluster.up(1)
    assert cluster.spec.nodes == 2
