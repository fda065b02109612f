from __future__ import annotations

import pytest

from sunkpy.core import names
from sunkpy.core.model.objects import Meta, OwnerReference, Pod
from sunkpy.core.model.slurmd import is_slurmd

REFERENCE = {"api_version": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "name": "gpu", "uid": "u", "controller": True}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, True, id="a NodeSet controls it"),
        pytest.param({"api_version": "sunkpy.dev/v2"}, True, id="another version of the API"),
        pytest.param({"controller": False}, False, id="owns, but does not control"),
        pytest.param({"kind": "ReplicaSet"}, False, id="another kind"),
        pytest.param({"api_version": "sunkpy.dev.example/v1"}, False, id="another group"),
    ],
)
def test_the_controller_makes_a_slurmd_pod(changes: dict[str, object], expected: bool) -> None:
    owner = OwnerReference(**{**REFERENCE, **changes})  # type: ignore[arg-type]
    assert is_slurmd(Pod(metadata=Meta(owner_references=(owner,)))) is expected


def test_labels_do_not() -> None:
    labels = {names.LABEL_ROLE: names.ROLE_COMPUTE, names.LABEL_NODESET: "gpu", names.LABEL_CLUSTER: "slurm"}
    assert not is_slurmd(Pod(metadata=Meta(labels=labels)))
