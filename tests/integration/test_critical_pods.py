"""The policy of chart sunkpy that no tenant makes pods for which the kubelet ends slurmd pods, on a real apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from devcluster.waiting import wait_until
from tests.integration.apiserver import Apiserver, alone
from tests.unit.charts.rendering import render

pytestmark = pytest.mark.integration

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ANYTHING = [{"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["create", "patch", "update", "get"]}]
EDIT = [
    {"apiGroups": [""], "resources": ["pods", "replicationcontrollers"], "verbs": ["create", "patch", "get"]},
    {"apiGroups": ["apps", "batch"], "resources": ["*"], "verbs": ["create", "patch", "get"]},
]
RULES = {"tenant": EDIT, "controller": EDIT, "binder": ANYTHING}
CRITICAL = "system-node-critical"
SAYS = "only users who may create pods/binding can give pods a system priority class here"


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    groups = {"controller": "system:serviceaccounts:kube-system"}
    with alone(tmp_path_factory.mktemp("apiserver"), {name: name for name in RULES}, groups) as apiserver:
        for name, rules in RULES.items():
            give(apiserver, name, rules)
        apiserver.make("/api/v1/namespaces", {"metadata": {"name": "gpu-operator"}})
        for namespace in ("default", "gpu-operator"):
            apiserver.make_account(namespace)
        assert written(apiserver, "Deployment", name="older").is_success
        apiserver.install(render("sunkpy", {"criticalNamespaces": ["gpu-operator"]}), "-critical-pods")
        assert wait_until(lambda: written(apiserver, "Pod").status_code == 403, timeout_s=60, every_s=0.5)
        yield apiserver


def give(apiserver: Apiserver, user: str, rules: list[dict[str, list[str]]]) -> None:
    """These rights, in all namespaces."""
    apiserver.make(f"{RBAC}/clusterroles", {"metadata": {"name": user}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    binding = {"metadata": {"name": user}, "roleRef": role, "subjects": [subject]}
    apiserver.make(f"{RBAC}/clusterrolebindings", binding)


def pod_spec(priority_class: str) -> dict[str, object]:
    containers = [{"name": "c", "image": "i"}]
    return {"priorityClassName": priority_class, "containers": containers, "restartPolicy": "Never"}


def spec_of(kind: str, priority_class: str) -> dict[str, object]:
    """The spec of a workload whose pods have this priority class."""
    if kind == "Pod":
        return pod_spec(priority_class)
    restarts = "Never" if kind in ("Job", "CronJob") else "Always"
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod_spec(priority_class) | {"restartPolicy": restarts}}
    if kind == "CronJob":
        return {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": template}}}
    chosen: dict[str, object] = {} if kind == "Job" else {"selector": {"matchLabels": {"app": "a"}}}
    if kind == "ReplicationController":
        chosen = {"selector": {"app": "a"}}
    if kind == "StatefulSet":
        chosen |= {"serviceName": "a"}
    return {"template": template, **chosen}


def written(
    apiserver: Apiserver, kind: str, user: str = "tenant", *, namespace: str = "default", name: str = "",
    priority_class: str = CRITICAL,
) -> httpx.Response:  # fmt: skip
    """The answer to who makes it, which a name makes last."""
    version = {"Pod": "v1", "ReplicationController": "v1", "Job": "batch/v1", "CronJob": "batch/v1"}.get(
        kind, "apps/v1"
    )
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    path = f"{root}/namespaces/{namespace}/{kind.lower()}s" + ("" if name else "?dryRun=All")
    body = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name or "a"},
        "spec": spec_of(kind, priority_class),
    }
    return apiserver.ask(user, "POST", path, body)


KINDS = (
    "Pod", "ReplicationController", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "Job", "CronJob",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("priority_class", [CRITICAL, "system-cluster-critical"])
def test_a_tenant_makes_nothing_for_which_the_kubelet_ends_others(
    apiserver: Apiserver, kind: str, priority_class: str
) -> None:
    refused = written(apiserver, kind, priority_class=priority_class)
    assert (refused.status_code, SAYS in refused.text) == (403, True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("user", "namespace", "priority_class"),
    [
        ("tenant", "default", ""),
        ("tenant", "gpu-operator", CRITICAL),
        ("binder", "default", CRITICAL),
        ("controller", "default", CRITICAL),
    ],
)
def test_all_others_make_what_they_made(
    apiserver: Apiserver, kind: str, user: str, namespace: str, priority_class: str
) -> None:
    made = written(apiserver, kind, user, namespace=namespace, priority_class=priority_class)
    assert made.is_success, made.text


def test_what_was_critical_before_is_changed_as_before_and_nothing_becomes_it(apiserver: Apiserver) -> None:
    older = "/apis/apps/v1/namespaces/default/deployments/older"
    assert apiserver.ask("tenant", "PATCH", older, {"spec": {"replicas": 3}}).is_success
    assert written(apiserver, "Deployment", name="plain", priority_class="").is_success
    becomes = {"spec": {"template": {"spec": {"priorityClassName": CRITICAL}}}}
    plain = "/apis/apps/v1/namespaces/default/deployments/plain"
    refused = apiserver.ask("tenant", "PATCH", plain, becomes)
    assert (refused.status_code, SAYS in refused.text) == (403, True)


def test_by_default_a_tenant_is_warned_and_makes_it_all_the_same(tmp_path: Path) -> None:
    """So an installation of the chart keeps no other operator from making its daemons again."""
    with alone(tmp_path, {"tenant": "tenant"}) as apiserver:
        give(apiserver, "tenant", EDIT)
        apiserver.make_account("default")
        apiserver.install(render("sunkpy", {}), "-critical-pods")

        def warned() -> bool:
            made = written(apiserver, "DaemonSet")
            assert made.is_success, made.text
            return SAYS in made.headers.get("warning", "")

        assert wait_until(warned, timeout_s=60, every_s=0.5)
        assert "warning" not in written(apiserver, "DaemonSet", priority_class="").headers
