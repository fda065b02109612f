"""sunkpy's device plugin with a real kubelet: who gets which GPU, and what dies when a part of it is away.

Pods are bound here by naming their node, with the notes that the scheduler writes with a binding. The GPUs are names.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import Cluster
from devcluster.kubectl import Kubectl
from devcluster.waiting import wait
from sunkpy.core import names
from tests.integration.devcluster.pods import kubectl_of, probe_pod

pytestmark = pytest.mark.integration

GPU = "example.com/gpu"
GPUS = 3


@pytest.fixture(scope="module")
def settings(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    node = cluster.nodes()[0]
    path = tmp_path_factory.mktemp("plugin") / "config.yaml"
    wanted = {
        "schedulers": ["slurm"], "resource": GPU, "pretend": GPUS, "folder": str(node.device_plugins),
        "http": {"port": 0},
    }  # fmt: skip
    path.write_text(json.dumps(wanted))
    return path


class Plugin:
    """The device plugin of node-1, as a process."""

    def __init__(self, cluster: Cluster, settings: Path) -> None:
        self._env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "NODE_NAME": "node-1"}
        program = Path(sys.executable).parent / "sunkpy"
        self._command = [str(program), "device-plugin", f"--config={settings}"]
        self._kubectl = kubectl_of(cluster)
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, env=self._env, stderr=subprocess.DEVNULL)
        wait(lambda: offered(self._kubectl) == str(GPUS), timeout_s=60, what="the kubelet offers the GPUs")

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        wait(lambda: offered(self._kubectl) == "0", timeout_s=60, what="the kubelet offers none")


@pytest.fixture(scope="module")
def plugin(cluster: Cluster, settings: Path) -> Iterator[Plugin]:
    plugin = Plugin(cluster, settings)
    yield plugin
    plugin.kill()


@pytest.fixture(autouse=True)
def _no_pods(kubectl: Kubectl) -> Iterator[None]:
    yield
    kubectl("delete", "pods", "--all", "--wait", "--grace-period=1", timeout_s=90)


def offered(kubectl: Kubectl) -> str:
    return kubectl.json("node", "node-1")["status"]["allocatable"].get(GPU, "0")


def bound(name: str, *devices: str, job: int = 7, count: int = 0, scheduler: str = "slurm") -> dict:
    """A pod that was just bound with these devices."""
    amount = str(count or len(devices))
    pod = probe_pod(name, node="node-1", container={"resources": {"limits": {GPU: amount}}})
    pod["spec"] |= {"nodeName": "node-1", "schedulerName": scheduler, "restartPolicy": "Never"}
    noted = ",".join(f"node-1/{device}" for device in devices)
    pod["metadata"]["annotations"] = {names.ANNOTATION_JOB_ID: str(job), names.ANNOTATION_DEVICES: noted}
    return pod


def gpus(kubectl: Kubectl, pod: str) -> set[str]:
    kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=60s", timeout_s=70)
    variables = dict(line.split("=", 1) for line in kubectl("exec", pod, "--", "/probe", "env").splitlines())
    return set(variables["NVIDIA_VISIBLE_DEVICES"].split(","))


def why_failed(kubectl: Kubectl, pod: str) -> str:
    status = wait(
        lambda: (found := kubectl.json("pod", pod)["status"])["phase"] == "Failed" and found,
        timeout_s=60, what=f"pod {pod} failed",
    )  # fmt: skip
    assert status["reason"] == "UnexpectedAdmissionError"
    return status["message"]


@pytest.mark.usefixtures("plugin")
def test_each_pod_gets_what_is_noted_on_it(kubectl: Kubectl):
    kubectl.apply(bound("a", "gpu2"))
    assert gpus(kubectl, "a") == {"gpu2"}
    kubectl.apply(bound("b", "gpu0", "gpu1", job=8))
    assert gpus(kubectl, "b") == {"gpu0", "gpu1"}


@pytest.mark.usefixtures("plugin")
def test_pods_of_one_job_that_come_together_share_what_is_noted_on_them(kubectl: Kubectl):
    kubectl.apply(*(bound(f"rank-{at}", f"gpu{at}") for at in range(GPUS)))
    found = [gpus(kubectl, f"rank-{at}") for at in range(GPUS)]
    assert sorted(found, key=min) == [{"gpu0"}, {"gpu1"}, {"gpu2"}]


@pytest.mark.usefixtures("plugin")
def test_a_pod_that_slurm_does_not_know_fails(kubectl: Kubectl):
    kubectl.apply(bound("stranger", "gpu0", scheduler="default-scheduler"))
    assert f"pod default/stranger asks for {GPU} and is not of scheduler slurm" in why_failed(kubectl, "stranger")


@pytest.mark.usefixtures("plugin")
def test_a_pod_without_a_note_fails_and_so_does_one_whose_gpu_another_has(kubectl: Kubectl):
    kubectl.apply(bound("a", "gpu0"))
    gpus(kubectl, "a")
    kubectl.apply(bound("bare", job=8, count=1))
    assert f"{names.ANNOTATION_DEVICES} of pod default/bare names 0 devices" in why_failed(kubectl, "bare")
    kubectl.apply(bound("second", "gpu0", job=9))
    assert "pod default/a still has node-1/gpu0" in why_failed(kubectl, "second")


def test_without_the_plugin_a_pod_fails_and_runs_on_where_it_ran(kubectl: Kubectl, plugin: Plugin):
    kubectl.apply(bound("a", "gpu1"))
    gpus(kubectl, "a")
    plugin.kill()
    kubectl.apply(bound("b", "gpu0", job=8))
    assert why_failed(kubectl, "b")
    plugin.start()
    assert gpus(kubectl, "a") == {"gpu1"}


@pytest.mark.usefixtures("plugin")
def test_a_kubelet_that_starts_anew_knows_who_has_what(cluster: Cluster, kubectl: Kubectl):
    kubectl.apply(bound("a", "gpu1"))
    gpus(kubectl, "a")
    cluster.fault.kubelet_stop("node-1")
    cluster.fault.kubelet_start("node-1")
    wait(lambda: offered(kubectl) == str(GPUS), timeout_s=90, what="the kubelet offers the GPUs again")
    kubectl.apply(bound("b", "gpu0", job=8))
    assert gpus(kubectl, "b") == {"gpu0"}
    assert gpus(kubectl, "a") == {"gpu1"}
