"""What a NodeSet may say of its GPUs and of other GRES: the rules of its CRD, on a real apiserver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.waiting import wait_until
from tests.integration.apiserver import Apiserver, alone

pytestmark = pytest.mark.integration

CRD = yaml.safe_load((Path(__file__).parents[2] / "crds/sunkpy.dev_nodesets.yaml").read_text())
NODESETS = "/apis/sunkpy.dev/v1alpha1/namespaces/default/nodesets"
LEAVE_OUT = "gpu.types has a type in each entry: leave out gpu.type and gpu.typeLabel"
ONE_OF_BOTH = "with gpu.driver, no entry of gpu.types may have a resource; without gpu.driver, each entry needs a"
OF_GPU = "no entry of gres may be called gpu, mps or shard; the field gpu of the NodeSet describes its GPUs"
COUNT_OR_RESOURCE = "each entry of gres needs either count or resource, and not both"
SLICE = {"type": "1g.5gb", "resource": "nvidia.com/mig-1g.5gb"}
BY_PROFILE = {"type": "1g.5gb", "attributes": {"profile": "1g.5gb"}}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    with alone(tmp_path_factory.mktemp("api")) as api:
        api.install([CRD], CRD["metadata"]["name"])
        assert wait_until(lambda: api.ask("admin", "GET", NODESETS).is_success, timeout_s=60)
        yield api


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        ({"type": "h100"}, ""),
        ({"types": [SLICE, {"type": "a100", "resource": "nvidia.com/gpu"}]}, ""),
        ({"driver": "gpu.nvidia.com", "types": [BY_PROFILE, {"type": "a100"}]}, ""),
        ({"type": "h100", "types": [SLICE]}, LEAVE_OUT),
        ({"typeLabel": "nvidia.com/gpu.product", "types": [SLICE]}, LEAVE_OUT),
        ({"typeLabel": "nvidia.com/gpu.product", "type": "h100"}, ""),
        ({"types": [BY_PROFILE]}, ONE_OF_BOTH),
        ({"types": [{"type": "a100"}]}, ONE_OF_BOTH),
        ({"driver": "gpu.nvidia.com", "types": [SLICE]}, ONE_OF_BOTH),
        ({"types": [SLICE, SLICE]}, "Duplicate value"),
    ],
)
def test_types_that_say_no_devices_or_two_are_refused(api: Apiserver, gpu: Mapping[str, Any], said: str):
    asked(api, {"gpu": gpu}, said)


@pytest.mark.parametrize(
    ("gres", "said"),
    [
        ([{"name": "nic", "resource": "rdma/hca"}, {"name": "fpga", "count": 1}], ""),
        *(([{"name": name, "count": 1}], OF_GPU) for name in ("gpu", "mps", "shard")),
        ([{"name": "nic"}], COUNT_OR_RESOURCE),
        ([{"name": "nic", "count": 1, "resource": "rdma/hca"}], COUNT_OR_RESOURCE),
        ([{"name": "nic", "count": 1}, {"name": "nic", "count": 2}], "Duplicate value"),
    ],
)
def test_gres_of_slurms_own_or_without_one_amount_are_refused(api: Apiserver, gres: list[Any], said: str):
    asked(api, {"gres": gres}, said)


def asked(api: Apiserver, of: Mapping[str, Any], said: str) -> None:
    """Ask for a NodeSet with these fields; `said`: part of the refusal, empty if it is taken."""
    template = {"spec": {"containers": [{"name": "slurmd", "image": "slurmd"}]}}
    spec = {"cluster": "slurm", "template": template, **of}
    body = {"apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": "mixed"}, "spec": spec}
    answer = api.ask("admin", "POST", f"{NODESETS}?dryRun=All", body)
    assert (answer.status_code, said in answer.text) == (422 if said else 201, True), answer.text
