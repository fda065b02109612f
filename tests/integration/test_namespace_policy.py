"""The policy of the chart that no namespace gives itself to somebody, on a real apiserver with no cluster around it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from devcluster.waiting import wait_until
from tests.integration.apiserver import Apiserver, alone
from tests.unit.charts.rendering import render

pytestmark = pytest.mark.integration

VALUES = {
    "scheduler": {
        "annotatedAccess": True,
        "access": [{"namespaces": ["chem"], "users": ["ann"]}, {"namespaceLabels": {"team": "ml"}}],
    }
}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = {
    "maker": [
        {
            "apiGroups": [""],
            "resources": ["namespaces", "namespaces/status", "namespaces/finalize"],
            "verbs": ["get", "create", "patch", "update"],
        }
    ],
    "setter": [
        {"apiGroups": ["sunkpy.dev"], "resources": ["namespaceaccess"], "resourceNames": ["lab"], "verbs": ["set"]}
    ],
}
SAYS = (
    "only users who may set namespaceaccess.sunkpy.dev can make a namespace that scheduler.access names, or change on "
    "any namespace: "
)


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    with alone(tmp_path_factory.mktemp("apiserver"), {"tenant": "tenant"}) as apiserver:
        give_rights(apiserver)
        yield apiserver


def give_rights(apiserver: Apiserver) -> None:
    """The tenant's, and the policy of the chart once it holds."""
    for name, rules in ROLES.items():
        apiserver.make(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        tenant = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}
        apiserver.make(
            f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [tenant]}
        )
    apiserver.install(render("slurm", VALUES), "-namespace-access")
    assert wait_until(lambda: created(apiserver, "chem").status_code == 403, timeout_s=60, every_s=0.5)


def created(apiserver: Apiserver, name: str, user: str = "tenant", **metadata: object) -> httpx.Response:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}
    return apiserver.ask(user, "POST", "/api/v1/namespaces?dryRun=All", body)


def changed(apiserver: Apiserver, name: str, user: str = "tenant", **metadata: object) -> httpx.Response:
    return apiserver.ask(user, "PATCH", f"/api/v1/namespaces/{name}", {"metadata": metadata})


CLAIMS: list[dict[str, object]] = [
    *(
        {"annotations": {f"sunkpy.dev/{kind}": "ann"}}
        for kind in ("users", "accounts", "partitions", "qos", "reservations", "licenses")
    ),
    {"labels": {"team": "ml"}},
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_no_namespace_gives_itself_to_somebody(apiserver: Apiserver, claim: dict[str, object]) -> None:
    refused = created(apiserver, "mine", **claim)
    assert (refused.status_code, SAYS in refused.json()["message"]) == (403, True)
    assert created(apiserver, "mine", user="admin", **claim).is_success
    apiserver.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": "given"}})
    assert changed(apiserver, "given", **claim).status_code == 403
    assert changed(apiserver, "given", user="admin", **claim).is_success
    (field,) = claim
    keys = dict.fromkeys(claim[field])  # type: ignore[call-overload]
    assert changed(apiserver, "given", **{field: keys}).status_code == 403, "nor does it take it away"
    assert changed(apiserver, "given", **{field: dict.fromkeys(keys, "x")}).status_code == 403
    assert changed(apiserver, "given", user="admin", **{field: keys}).is_success


@pytest.mark.parametrize("claim", CLAIMS)
def test_nor_does_it_by_a_subresource(apiserver: Apiserver, claim: dict[str, object]) -> None:
    made = apiserver.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"generateName": "part-"}}).json()
    own = f"/api/v1/namespaces/{made['metadata']['name']}"
    (field,) = claim
    made["metadata"][field] = {**made["metadata"].get(field, {}), **claim[field]}  # type: ignore[dict-item]
    answers = [
        apiserver.ask("tenant", "PATCH", f"{own}/status", {"metadata": claim}),
        apiserver.ask("tenant", "PUT", f"{own}/finalize", made),
    ]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert all(SAYS in answer.json()["message"] for answer in answers)
    del made["metadata"][field]
    assert apiserver.ask("tenant", "PUT", f"{own}/finalize", made).is_success
    assert apiserver.ask("tenant", "PATCH", f"{own}/status", {"metadata": {"labels": {"x": "y"}}}).is_success


def test_nobody_makes_a_namespace_that_the_map_names(apiserver: Apiserver) -> None:
    assert created(apiserver, "chem").status_code == 403
    assert created(apiserver, "chem", user="admin").is_success


def test_all_else_of_namespaces_is_as_it_was(apiserver: Apiserver) -> None:
    assert created(apiserver, "other", labels={"a": "b"}, annotations={"c": "d", "sunkpy.dev/other": "e"}).is_success
    apiserver.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
    assert changed(apiserver, "kept", user="admin", annotations={"sunkpy.dev/users": "ann"}).is_success
    assert changed(apiserver, "kept", labels={"x": "y"}).is_success


def test_whom_an_administrator_trusts_with_a_namespace_sets_its_own_alone(apiserver: Apiserver) -> None:
    assert created(apiserver, "lab", annotations={"sunkpy.dev/users": "ann"}).is_success
    assert created(apiserver, "lab2", annotations={"sunkpy.dev/users": "ann"}).status_code == 403
