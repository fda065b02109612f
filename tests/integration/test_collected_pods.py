"""The policy of chart sunkpy that the garbage collector waits for Slurm, and for which pods, on a real apiserver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster.waiting import wait_until
from sunkpy.core import names
from sunkpy.core.model.objects import Meta
from sunkpy.core.nodeset.spec import NodeSet
from tests.integration.apiserver import Apiserver, alone
from tests.unit.charts.rendering import render

pytestmark = pytest.mark.integration

RBAC = "/apis/rbac.authorization.k8s.io/v1"
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
SLURMD = {names.LABEL_ROLE: names.ROLE_COMPUTE}
OWN = NodeSet(metadata=Meta(name="compute", namespace="slurm", uid="1-2-3")).controller_reference
OTHER = {**OWN, "apiVersion": "apps/v1", "kind": "ReplicaSet"}
DRAINED = {names.ANNOTATION_PENDING_DELETION: "t/roll", names.ANNOTATION_DRAINED: "t/roll"}
SAYS = "Slurm has not yet drained the node of this pod"


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    with alone(tmp_path_factory.mktemp("apiserver"), {"collector": COLLECTOR}) as apiserver:
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]
        apiserver.make(f"{RBAC}/clusterroles", {"metadata": {"name": "collector"}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "collector"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": COLLECTOR}
        binding = {"metadata": {"name": "collector"}, "roleRef": role, "subjects": [subject]}
        apiserver.make(f"{RBAC}/clusterrolebindings", binding)
        for namespace in ("slurm", "team"):
            apiserver.make("/api/v1/namespaces", {"metadata": {"name": namespace}})
            apiserver.make_account(namespace)
        apiserver.install(render("sunkpy", {"nodeSetNamespaces": ["slurm"]}), "-slurmd-pods")
        make(apiserver, "first", owner=OWN)
        assert wait_until(lambda: collected(apiserver, "first") == (403, True), timeout_s=60, every_s=0.5)
        yield apiserver


def make(
    apiserver: Apiserver, name: str, *, owner: dict[str, object], namespace: str = "slurm", **annotations: str
) -> None:
    metadata = {"name": name, "labels": SLURMD, "annotations": annotations, "ownerReferences": [owner]}
    body = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    apiserver.make(f"/api/v1/namespaces/{namespace}/pods", body)


def collected(apiserver: Apiserver, name: str, namespace: str = "slurm") -> tuple[int, bool]:
    """What the collector is answered: the code, and whether it was this policy."""
    answer = apiserver.ask("collector", "DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", {"dryRun": ["All"]})
    return answer.status_code, SAYS in answer.text


def test_a_slurmd_pod_stays_until_slurm_has_drained_it(apiserver: Apiserver) -> None:
    assert collected(apiserver, "first") == (403, True)
    make(apiserver, "drained", owner=OWN, **DRAINED)
    assert collected(apiserver, "drained") == (200, False)


def test_the_label_alone_keeps_nobodys_pod(apiserver: Apiserver) -> None:
    make(apiserver, "labelled", owner=OTHER)
    assert collected(apiserver, "labelled") == (200, False)
    make(apiserver, "elsewhere", owner=OWN, namespace="team")
    assert collected(apiserver, "elsewhere", "team") == (200, False)
