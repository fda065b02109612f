"""The policy of the chart that no pod skips the queue by naming its node, on a real apiserver without a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from devcluster.waiting import wait_until
from tests.integration.apiserver import Apiserver, alone
from tests.unit.charts.rendering import render

pytestmark = pytest.mark.integration

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
USERS = {"tenant": "pods", "binder": "pods pods/binding"}
SAYS = "only who may create pods/binding puts a pod of this scheduler on a node by spec.nodeName"
ALIAS = "other-name"


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    with alone(tmp_path_factory.mktemp("apiserver"), {name: name for name in USERS}) as apiserver:
        give_rights(apiserver)
        yield apiserver


def give_rights(apiserver: Apiserver) -> None:
    """Those of the users, and the policy of the chart once it holds."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    made = "/api/v1/namespaces/default/serviceaccounts"
    assert wait_until(lambda: apiserver.ask("admin", "POST", made, account).status_code in (201, 409), timeout_s=60)
    for user, resources in USERS.items():
        rules = [{"apiGroups": [""], "resources": resources.split(), "verbs": ["create"]}]
        apiserver.make(f"{RBAC}/clusterroles", {"metadata": {"name": user}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
        apiserver.make(
            f"{RBAC}/clusterrolebindings", {"metadata": {"name": user}, "roleRef": role, "subjects": [subject]}
        )
    for each in render("slurm", {"scheduler": {"aliases": [ALIAS]}}):
        if each["metadata"]["name"].endswith("-node-names"):
            is_policy = each["kind"].endswith("Policy")
            plural = "validatingadmissionpolicies" if is_policy else "validatingadmissionpolicybindings"
            apiserver.make(f"{ADMISSION}/{plural}", each)
    assert wait_until(lambda: created(apiserver, nodeName="n1").status_code == 403, timeout_s=60, every_s=0.5)


def created(
    apiserver: Apiserver, user: str = "tenant", *, annotations: dict[str, str] | None = None, **spec: object
) -> httpx.Response:
    containers = [{"name": "c", "image": "i"}]
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": annotations or {}},
        "spec": {"schedulerName": "demo", "containers": containers} | spec,
    }
    return apiserver.ask(user, "POST", f"{PODS}?dryRun=All", body)


@pytest.mark.parametrize("scheduler", ["demo", ALIAS])
@pytest.mark.parametrize("annotations", [{}, {"kubernetes.io/config.mirror": "x"}])
def test_nobody_skips_the_queue(apiserver: Apiserver, scheduler: str, annotations: dict[str, str]) -> None:
    refused = created(apiserver, schedulerName=scheduler, nodeName="n1", annotations=annotations)
    assert (refused.status_code, SAYS in refused.json()["message"]) == (403, True)


def test_who_may_bind_pods_may_name_their_node(apiserver: Apiserver) -> None:
    for user in ("binder", "admin"):
        answer = created(apiserver, user, nodeName="n1")
        assert answer.is_success, answer.text


def test_all_else_of_pods_is_as_it_was(apiserver: Apiserver) -> None:
    by_affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
            }
        }
    }
    for spec in ({}, {"affinity": by_affinity}, {"schedulerName": "default-scheduler", "nodeName": "n1"}):
        answer = created(apiserver, **spec)
        assert answer.is_success, answer.text
