"""What administrators of a team may do, by docs/examples/team.yaml, on a real apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from devcluster.waiting import wait_until
from tests.integration.apiserver import Apiserver
from tests.unit.charts.rendering import of_kind, render

pytestmark = pytest.mark.integration

ROOT: Final = Path(__file__).parents[2]
VALUES: Final = yaml.safe_load((ROOT / "docs/examples/team.yaml").read_text())
CRD: Final = yaml.safe_load((ROOT / "crds/sunkpy.dev_nodesets.yaml").read_text())
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
NODESETS: Final = "/apis/sunkpy.dev/v1alpha1/namespaces/default/nodesets"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    api = Apiserver(tmp_path_factory.mktemp("api"), {"lead": "lead"}, {"lead": "chem-admins"})
    try:
        api.install([CRD], CRD["metadata"]["name"])
        manifests = render("slurm", VALUES)
        assert wait_until(lambda: api.ask("admin", "GET", NODESETS).is_success, timeout_s=60)
        for name in ("compute", "chem"):
            api.make(NODESETS, of_kind(manifests, "NodeSet")[name])
        for kind in ("Role", "RoleBinding"):
            api.make(f"{RBAC}/{kind.lower()}s", of_kind(manifests, kind)["team-chem"])
        assert wait_until(lambda: api.ask("lead", "GET", f"{NODESETS}/chem").is_success, timeout_s=30)
        yield api
    finally:
        api.stop()


def test_their_nodeset_takes_nodes_that_are_tainted_for_them():
    template = of_kind(render("slurm", VALUES), "NodeSet")["chem"]["spec"]["template"]
    (own,) = template["spec"]["tolerations"]
    assert own == {"key": next(iter(template["spec"]["nodeSelector"])), "operator": "Exists"}


def test_they_scale_their_nodeset(api: Apiserver):
    done = api.ask("lead", "PATCH", f"{NODESETS}/chem/scale", {"spec": {"replicas": 4}})
    assert done.is_success, done.text
    assert api.ask("admin", "GET", f"{NODESETS}/chem").json()["spec"]["replicas"] == 4


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", f"{NODESETS}/compute/scale", {"spec": {"replicas": 0}}),
        ("PATCH", f"{NODESETS}/chem", {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
        ("DELETE", f"{NODESETS}/chem", None),
        ("GET", "/api/v1/namespaces/default/secrets", None),
        ("POST", "/api/v1/namespaces/default/pods", {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}}),
    ],
)
def test_they_do_nothing_else(api: Apiserver, method: str, path: str, body: Any):
    assert api.ask("lead", method, path, body).status_code == 403
