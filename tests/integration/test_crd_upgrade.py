"""The CRD is upgraded with chart sunkpy, and the NodeSets that are there go on, on a real apiserver."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from devcluster.waiting import wait_until
from tests.integration.apiserver import Apiserver, alone
from tests.integration.test_immutable_values import NODESETS, upgrade
from tests.unit.charts.rendering import CHARTS

pytestmark = pytest.mark.integration

COLUMN, FIELD = "Feasible", {"features": ["ib"]}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Apiserver]:
    with alone(tmp_path) as api:
        yield api


def of_before(folder: Path) -> Path:
    """Charts whose CRD has not the column and the field."""
    shutil.copytree(CHARTS / "sunkpy", folder / "sunkpy")
    file = folder / "sunkpy/files/crds/sunkpy.dev_nodesets.yaml"
    crd = yaml.safe_load(file.read_text())
    (version,) = crd["spec"]["versions"]
    version["additionalPrinterColumns"] = [
        each for each in version["additionalPrinterColumns"] if each["name"] != COLUMN
    ]
    for name in FIELD:
        del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][name]
    file.write_text(yaml.safe_dump(crd))
    return folder


def columns(api: Apiserver) -> list[str]:
    """What `kubectl get nodesets` shows."""
    headers = {"Authorization": "Bearer admin", "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = httpx.get(api.url + NODESETS, headers=headers, verify=False).json()
    return [each["name"] for each in table["columnDefinitions"]]


def set_field(api: Apiserver) -> dict[str, Any]:
    """What the NodeSet then is."""
    return api.ask("admin", "PATCH", f"{NODESETS}/old", {"spec": FIELD}).json()


def test_an_upgrade_of_the_chart_brings_a_new_field_and_keeps_the_nodesets(api: Apiserver, tmp_path: Path):
    assert upgrade(api, {}, "sunkpy", charts=of_before(tmp_path / "charts")) == ""
    assert wait_until(lambda: api.ask("admin", "GET", NODESETS).is_success, timeout_s=60)
    template = {"spec": {"containers": [{"name": "slurmd", "image": "slurmd"}]}}
    body = {"apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": "old"}}
    api.make(NODESETS, {**body, "spec": {"cluster": "slurm", "template": template}})
    made = set_field(api)
    assert (FIELD.keys() & made["spec"].keys(), COLUMN in columns(api)) == (set(), False)

    assert upgrade(api, {}, "sunkpy") == ""
    assert wait_until(lambda: COLUMN in columns(api), timeout_s=60)
    now = api.ask("admin", "GET", f"{NODESETS}/old").json()
    assert (now["spec"], now["metadata"]["uid"]) == (made["spec"], made["metadata"]["uid"])
    assert wait_until(lambda: set_field(api)["spec"] == made["spec"] | FIELD, timeout_s=60)
