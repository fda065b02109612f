"""The real Cluster Autoscaler, and who plays the kubelets of its Nodes.

Its provider `kwok` makes Node objects instead of machines. `$SUNKPY_CLUSTER_AUTOSCALER` is the program:
`go build ./kwok` in github.com/kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.nodeset.slurmd_pod import node_of
from tests.integration.apiserver import Apiserver

PROGRAM = os.environ.get("SUNKPY_CLUSTER_AUTOSCALER", "")
POOL = "gpu-pool"
"""Which nodes a NodeSet takes, and the node group of the autoscaler."""
CPUS = 8
_BUFFERS = "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers"
_REQUESTS = "/apis/autoscaling.x-k8s.io/v1/provisioningrequests"
_OWN = "default"
"""The namespace of the autoscaler."""
_PROVIDER = {
    "apiVersion": "v1alpha1",
    "readNodesFrom": "configmap",
    "nodegroups": {"fromNodeLabelKey": "pool"},
    "nodes": {"skipTaint": True},
    "configmap": {"name": "kwok-provider-templates"},
}


def _crd(kind: str, version: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The CRD of a kind of the autoscaler, with any content."""
    plural, anything = f"{kind.lower()}s", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {**anything, "properties": {"spec": {**anything, "properties": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.autoscaling.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/autoscaler"},
        },
        "spec": {
            "group": "autoscaling.x-k8s.io",
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [{
                "name": version, "served": True, "storage": True, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    }  # fmt: skip


_KINDS = [
    _crd(
        "CapacityBuffer",
        "v1beta1",
        {"provisioningStrategy": {"type": "string", "default": "buffer.x-k8s.io/active-capacity"}},
    ),
    _crd("ProvisioningRequest", "v1", {}),
]
"""The default is one that the autoscaler needs."""


def _machine(most: int) -> dict[str, Any]:
    """The Node of which the provider makes others."""
    size = {"cpu": str(CPUS), "memory": "32Gi", "pods": "110"}
    group = {"min-count": "0", "max-count": str(most), "desired-count": "0"}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "machine",
            "labels": {"pool": POOL, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"},
            "annotations": {f"cluster-autoscaler.kwok.nodegroup/{key}": value for key, value in group.items()},
        },
        "spec": {},
        "status": {
            "allocatable": size, "capacity": size,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }  # fmt: skip


def autoscale(apiserver: Apiserver, *, most: int) -> None:
    """Run a Cluster Autoscaler that makes up to `most` nodes. It looks each second, and removes a node that was empty
    for three seconds."""
    apiserver.install(_KINDS, ".autoscaling.x-k8s.io")
    templates = {"apiVersion": "v1", "kind": "List", "items": [_machine(most)]}
    config = {
        "kwok-provider-config": {"config": json.dumps(_PROVIDER)},
        "kwok-provider-templates": {"templates": json.dumps(templates)},
    }
    for name, data in config.items():
        apiserver.make(f"/api/v1/namespaces/{_OWN}/configmaps", {"metadata": {"name": name}, "data": data})
    admin = str(apiserver.kubeconfig("admin"))
    apiserver.start(
        PROGRAM, "--cloud-provider=kwok", f"--kubeconfig={admin}", f"--namespace={_OWN}",
        "--leader-elect=false", "--address=127.0.0.1:0", "--v=1", "--scan-interval=1s",
        "--frequent-loops-enabled=false", "--new-pod-scale-up-delay=0s", "--scale-down-delay-after-add=1s",
        "--scale-down-delay-after-delete=0s", "--scale-down-unneeded-time=3s",
        "--unremovable-node-recheck-timeout=1s", "--node-delete-delay-after-taint=1s",
        "--capacity-buffer-controller-enabled", "--capacity-buffer-pod-injection-enabled",
        "--enable-provisioning-requests",
        env={"KUBECONFIG": admin, "KWOK_PROVIDER_MODE": "local", "POD_NAMESPACE": _OWN},
    )  # fmt: skip


class Kubelets:
    """Nodes and slurmd pods of a namespace, as kubelets and kube-scheduler move them.

    `bought`: the names of all Nodes that there ever were, in order.
    """

    def __init__(self, apiserver: Apiserver, namespace: str) -> None:
        self.apiserver = apiserver
        self.pods_path = f"/api/v1/namespaces/{namespace}/pods"
        self.bought: dict[str, None] = {}

    def items(self, path: str) -> list[dict[str, Any]]:
        """What is listed there."""
        found: list[dict[str, Any]] = self.apiserver.ask("admin", "GET", path).json()["items"]
        return found

    def patch(self, path: str, body: object) -> None:
        """Change what is there, if it still is."""
        answer = self.apiserver.ask("admin", "PATCH", path, body)
        assert answer.is_success or answer.status_code in (404, 409), answer.text

    @property
    def nodes(self) -> dict[str, dict[str, Any]]:
        """The Node objects, by name."""
        return {node["metadata"]["name"]: node for node in self.items("/api/v1/nodes")}

    @property
    def slurmd_pods(self) -> list[dict[str, Any]]:
        """All of them, those that end among them."""
        return self.items(f"{self.pods_path}?labelSelector={names.LABEL_ROLE}={names.ROLE_COMPUTE}")

    @property
    def placeholders(self) -> list[str]:
        """The names of the placeholder pods."""
        return [pod["metadata"]["name"] for pod in self.items(f"{self.pods_path}?labelSelector={names.LABEL_WANTED}")]

    @property
    def asked(self) -> int:
        """How many nodes something stands for."""
        buffers, requests = (
            found.json()["items"] if (found := self.apiserver.ask("admin", "GET", path)).is_success else []
            for path in (_BUFFERS, _REQUESTS)
        )
        bundles = sum(pods["count"] for each in requests for pods in each["spec"]["podSets"])
        return len(self.placeholders) + sum(each["spec"]["replicas"] for each in buffers) + bundles

    def boot(self) -> dict[str, dict[str, Any]]:
        """Nodes that are new get what a kubelet gives them; all nodes."""
        nodes = self.nodes
        for name, node in nodes.items():
            if "kubernetes.io/hostname" not in node["metadata"]["labels"]:
                self.bought[name] = None
                address = {"type": "InternalIP", "address": f"10.0.12.{len(self.bought)}"}
                self.patch(f"/api/v1/nodes/{name}/status", {"status": {"addresses": [address]}})
                labels = {"kubernetes.io/hostname": name}
                # The apiserver makes each Node with the taint not-ready; the node lifecycle controller takes it off.
                self.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}, "spec": {"taints": []}})
        return nodes

    def bind(self, pod: dict[str, Any]) -> None:
        """A slurmd pod to the node for which it was made."""
        name, target = pod["metadata"]["name"], {"apiVersion": "v1", "kind": "Node", "name": slurmd_node(pod)}
        body = {"metadata": {"name": name}, "target": target}
        self.apiserver.ask("admin", "POST", f"{self.pods_path}/{name}/binding", body)

    def remove(self, pod: dict[str, Any]) -> None:
        """A pod that has ended, or whose node has."""
        self.apiserver.ask("admin", "DELETE", f"{self.pods_path}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})


def slurmd_node(pod: dict[str, Any]) -> str:
    """The node for which a slurmd pod was made."""
    return node_of(msgspec.convert(pod, Pod))
