"""A cluster that is broken on purpose, and mended."""

import os
import signal
import subprocess

import pytest

from devcluster import Cluster, cgroups, mounts
from devcluster.api import ApiError
from devcluster.kubectl import Kubectl
from devcluster.waiting import wait
from tests.integration.devcluster.pods import kubectl_of, probe_pod

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", autouse=True)
def _pods(cluster: Cluster) -> None:
    kubectl = kubectl_of(cluster)
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    kubectl.apply(probe_pod("a", node="node-1", container=gpu), probe_pod("b", node="node-2"))
    kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")


def is_ready(kubectl: Kubectl, node: str) -> bool:
    conditions = kubectl.json("node", node)["status"]["conditions"]
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def container(kubectl: Kubectl, pod: str) -> str:
    return kubectl.json("pod", pod)["status"]["containerStatuses"][0]["containerID"]


@pytest.mark.parametrize("fault", ["kubelet", "network"])
def test_a_lost_node_turns_not_ready_and_comes_back_as_it_was(cluster: Cluster, kubectl: Kubectl, fault: str):
    before = container(kubectl, "a")
    lose, find = {
        "kubelet": (cluster.fault.kubelet_stop, cluster.fault.kubelet_start),
        "network": (cluster.fault.cut, cluster.fault.mend),
    }[fault]
    lose("node-1")
    wait(lambda: not is_ready(kubectl, "node-1"), timeout_s=120, what="node-1 NotReady")
    assert is_ready(kubectl, "node-2")
    find("node-1")
    wait(lambda: is_ready(kubectl, "node-1"), timeout_s=120, what="node-1 Ready again")
    assert container(kubectl, "a") == before
    assert kubectl.json("node", "node-1")["status"]["allocatable"]["nvidia.com/gpu"] == "2"


def test_a_node_that_is_switched_off_leaves_nothing_but_its_disk_and_comes_back(cluster: Cluster, kubectl: Kubectl):
    node = cluster.layout.node(1)
    cluster.fault.power_off("node-1")
    assert not any(pid for name, pid in cluster.processes().items() if name.startswith("node-1-"))
    assert (cgroups.pids(node.cgroup, cgroups.hierarchies()), mounts.below(node.home)) == (set(), [])
    kubectl("wait", "--for=condition=Ready=Unknown", "node/node-1", "--timeout=60s")
    cluster.fault.power_on("node-1")
    assert all(cluster.processes().values())
    kubectl("wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/a", "--timeout=60s")
    kubectl("wait", "--for=condition=Ready", "pod/a", "--timeout=60s")


def test_pods_outlive_the_apiserver(cluster: Cluster, kubectl: Kubectl):
    before = container(kubectl, "b")
    cluster.fault.kill_apiserver()
    with pytest.raises(ApiError, match="is the apiserver running"):
        cluster.api.get("/readyz")
    assert cluster.processes()["kube-apiserver"] is None
    cluster.fault.start_apiserver()
    assert container(kubectl, "b") == before


@pytest.mark.parametrize("victims", ["control plane", "node-1", "all"])
def test_up_starts_what_was_killed_and_pods_outlive_it(cluster: Cluster, kubectl: Kubectl, victims: str):
    before = {pod: container(kubectl, pod) for pod in ("a", "b")}
    killed = set()
    for name, pid in cluster.processes().items():
        on_node = name.startswith("node-")
        hit = {"control plane": not on_node, "node-1": name.startswith("node-1-"), "all": True}[victims]
        if hit:
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            killed.add(name)
    wait(lambda: not any(cluster.processes()[name] for name in killed), timeout_s=120, what="the killed to be gone")
    cluster.up()
    assert all(cluster.processes().values())
    wait(lambda: is_ready(kubectl, "node-1") and is_ready(kubectl, "node-2"), timeout_s=120, what="nodes Ready")
    assert {pod: container(kubectl, pod) for pod in ("a", "b")} == before
    assert kubectl.json("node", "node-1")["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    # and the cluster still takes new pods, on the network
    kubectl.apply(probe_pod("new", node="node-1"))
    kubectl("wait", "--for=condition=Ready", "pod/new", "--timeout=60s")
    address = kubectl.json("pod", "new")["status"]["podIP"]
    assert kubectl("exec", "b", "--", "/probe", "get", f"http://{address}:8080") == "new"
    kubectl("delete", "pod", "new", "--now")


def test_up_mends_a_network_that_somebody_took_apart(cluster: Cluster, kubectl: Kubectl):
    subprocess.run(["ip", "link", "del", cluster.layout.bridge], check=True)
    subprocess.run(["ip", "link", "del", cluster.layout.node(2).veth], check=True)
    cluster.up()
    wait(lambda: is_ready(kubectl, "node-2"), timeout_s=120, what="node-2 Ready")
    address = kubectl.json("pod", "b")["status"]["podIP"]
    wait(
        lambda: kubectl("exec", "a", "--", "/probe", "get", f"http://{address}:8080") == "b",
        timeout_s=60,
        what="a reaches b again",
    )
