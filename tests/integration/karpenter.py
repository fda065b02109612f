"""The real Karpenter with its provider `kwok`, which makes Node objects instead of machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from devcluster.binaries import Binaries, pinned
from devcluster.state import default_cache
from devcluster.waiting import wait_until
from tests.integration.apiserver import Apiserver
from tests.integration.cluster_autoscaler import CPUS, POOL
from tests.ports import free_ports

KARPENTER: Final = pinned(
    "karpenter", "1.14.0", module="sigs.k8s.io/karpenter", packages=("sigs.k8s.io/karpenter/kwok",)
)
_CRDS: Final = ("kwok/apis/crds/*.yaml", "pkg/apis/crds/*.yaml")
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NODE_CLASSES: Final = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
NODE_POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
_FLAGS: Final = {
    "DISABLE_LEADER_ELECTION": "true",
    "SYSTEM_NAMESPACE": "default",
    "FEATURE_GATES": "CapacityBuffer=true",
    "BATCH_IDLE_DURATION": "1s",
}


def _machine() -> dict[str, Any]:
    """The only kind of machine that can be bought."""
    needs = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "a"}
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in needs.items()]
    return {
        "name": "machine", "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": str(CPUS), "memory": "32Gi", "pods": "110", "ephemeral-storage": "20Gi"},
        "offerings": [{"Price": 1.0, "Available": True, "Requirements": requirements}],
    }  # fmt: skip


def _pool() -> dict[str, Any]:
    """Machines of which one that was empty for three seconds is removed."""
    template = {
        "metadata": {"labels": {"pool": POOL}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
            "expireAfter": "Never",
        },
    }
    disruption = {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": "3s",
        "budgets": [{"nodes": "100%"}],
    }
    return {
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "pool"},
        "spec": {"template": template, "disruption": disruption},
    }  # fmt: skip


def scale(apiserver: Apiserver) -> None:
    """Run a Karpenter with one NodePool, without a limit: nodes of `kwok` have only the capacity that pods ask for."""
    binaries = Binaries(default_cache())
    binaries.ensure([KARPENTER], progress=print)
    module = binaries.module_folder(KARPENTER, "sigs.k8s.io/karpenter", progress=print)
    for file in (file for pattern in _CRDS for file in sorted(module.glob(pattern))):
        apiserver.make(_DEFINITIONS, msgspec.yaml.decode(file.read_bytes()))
    node_class = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}
    for path, body in ((_NODE_CLASSES, node_class), (NODE_POOLS, _pool())):
        _make(apiserver, path, body)
    admin = apiserver.kubeconfig("admin")
    machines = Path(admin).with_name("machines.json")
    machines.write_text(json.dumps([_machine()]))
    metrics, health = map(str, free_ports(2))
    apiserver.start(
        str(binaries.folder(KARPENTER) / "kwok"),
        env={
            **_FLAGS, "KUBECONFIG": str(admin), "INSTANCE_TYPES_FILE_PATH": str(machines), "METRICS_PORT": metrics,
            "HEALTH_PROBE_PORT": health,
        },
    )  # fmt: skip


def _make(apiserver: Apiserver, path: str, body: object) -> None:
    """The kind was installed a moment ago."""
    assert wait_until(lambda: apiserver.ask("admin", "POST", path, body).status_code in (201, 409), timeout_s=60)
