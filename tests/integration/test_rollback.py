"""`helm rollback`, which renders nothing again, takes back each change of values, on a real apiserver."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.integration.apiserver import Apiserver, alone
from tests.integration.test_immutable_values import bind, upgrade
from tests.unit.charts.rendering import helm

pytestmark = pytest.mark.integration

SHARED = {"slurmctld": {"persistence": {"accessModes": ["ReadWriteMany"]}}}
TWO = {"slurmctld": {**SHARED["slurmctld"], "replicas": 2}}
PLAIN = {"persistence": {"storageClass": "plain"}}
ANN = {"uid": 2001, "sshKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGPPXOXcMTZaPZIqgVbxFGqbVLYLHjwZdSpIrVTSLxX"]}
# A class is named as a claim is made, left out, and named of one that has it. Claims are left out and wanted again.
REVISIONS: tuple[Mapping[str, object], ...] = (
    {"slurmctld": {**SHARED["slurmctld"], "backup": PLAIN}},
    TWO,
    {
        "slurmctld": {**TWO["slurmctld"], "backup": {"enabled": False}},
        "accounting": {"backup": {"enabled": False}},
        "home": {"existingClaim": "mine"},
    },
    {
        **SHARED,
        "accounting": {"enabled": False},
        "accounts": {"enabled": False},
        "home": {"volume": {"nfs": {"server": "nas", "path": "/home"}}},
        "networkPolicies": {"enabled": False},
        "priorityClasses": {"create": False},
    },
    {
        **SHARED,
        "accounting": {"backup": PLAIN, "database": {"persistence": {"size": "8192Mi"}}},
        "home": {"storageClass": "plain"},
        "users": {"people": {"ann": ANN}},
        "login": {
            "replicas": 3,
            "ssh": {"service": {"type": "LoadBalancer"}},
            "sets": {"chem": {"replicas": 2}},
            "perUser": {"enabled": True},
        },
        "compute": {"ssh": {"enabled": True}},
        "slurmConfig": {"conf": {"KillWait": 60}, "privateTmp": True},
    },
    {
        **SHARED,
        "metricsSecret": "certificates",
        "scheduler": {"gpuSharing": "plugin", "protectNodeNames": False},
        "nodeSets": {"gpu": {"gpu": {"resource": "nvidia.com/gpu", "type": "h100"}}},
        "page": {"enabled": True},
        "dashboards": {"enabled": True},
        "common": {"labels": {"site": "x"}},
        "patches": {"Service/slurmctld": {"metadata": {"annotations": {"a": "b"}}}},
        "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "site"}, "data": {"a": "b"}}],
    },
)
KINDS = {
    "/api/v1": ("services", "configmaps", "serviceaccounts"),
    "/apis/apps/v1": ("deployments", "statefulsets", "daemonsets"),
    "/apis/batch/v1": ("cronjobs",),
    "/apis/networking.k8s.io/v1": ("networkpolicies",),
    "/apis/policy/v1": ("poddisruptionbudgets",),
    "/apis/rbac.authorization.k8s.io/v1": ("roles", "rolebindings"),
    "/apis/sunkpy.dev/v1alpha1": ("nodesets",),
}
GIVEN = {"clusterIP", "clusterIPs", "ports"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    default = {"metadata": {"name": "plain", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}
    with alone(tmp_path_factory.mktemp("api")) as api:
        api.make("/apis/storage.k8s.io/v1/storageclasses", {**default, "provisioner": "example.com/none"})
        assert upgrade(api, {}, "sunkpy") == ""
        yield api


def rollback(api: Apiserver, revision: int) -> str:
    """What helm says where it fails."""
    argv = (
        helm(), "rollback", "demo", str(revision), "--namespace=research", "--no-hooks",
        f"--kubeconfig={api.kubeconfig('admin')}",
    )  # fmt: skip
    done = subprocess.run(argv, text=True, capture_output=True, check=False)
    return done.stderr if done.returncode else ""


def there(api: Apiserver) -> dict[str, Any]:
    """What the release is, without what a cluster adds to it."""
    objects = {}
    for group, kinds in KINDS.items():
        for kind in kinds:
            for each in api.ask("admin", "GET", f"{group}/namespaces/research/{kind}").json()["items"]:
                meta = each.pop("metadata")
                if meta.get("labels", {}).get("app.kubernetes.io/instance") == "demo":
                    spec = {key: value for key, value in each.get("spec", {}).items() if key not in GIVEN}
                    body = {key: value for key, value in each.items() if key not in ("status", "spec", "secrets")}
                    objects[f"{kind}/{meta['name']}"] = {**body, "spec": spec, "labels": meta["labels"]}
    return objects


def test_each_revision_is_gone_back_to(api: Apiserver):
    seen = []
    for number, values in enumerate(REVISIONS, start=1):
        assert upgrade(api, values) == "", number
        bind(api)
        seen.append(there(api))
    for number in range(len(REVISIONS) - 1, 0, -1):
        assert rollback(api, number) == "", number
        assert there(api) == seen[number - 1], number


def test_what_only_a_failed_upgrade_gave_a_nodeset_goes_by_a_rollback(api: Apiserver):
    """helm compares a NodeSet with the last upgrade that did not fail, and not with what there is."""

    def has_gpus() -> bool:
        (nodeset,) = api.ask("admin", "GET", "/apis/sunkpy.dev/v1alpha1/namespaces/research/nodesets").json()["items"]
        return "gpu" in nodeset["spec"]

    def upgraded(values: Mapping[str, object], *args: str) -> str:
        return upgrade(api, {**SHARED, "nodeSets": {"gpu": values}}, "slurm", *args)

    mistake = {"gpu": {"resource": "nvidia.com/gpu", "type": "h100"}}
    assert upgraded({}) == ""
    assert "UPGRADE FAILED" in upgraded(mistake, "--wait", "--timeout=2s")
    assert upgraded({}) == ""
    assert has_gpus()
    assert "UPGRADE FAILED" in upgraded(mistake, "--wait", "--timeout=2s")
    assert rollback(api, 0) == ""
    assert not has_gpus()
