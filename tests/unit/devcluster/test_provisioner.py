from pathlib import Path

import msgspec
import pytest

from devcluster.provisioner import SELECTED_NODE, Claim, Volume, is_to_delete, plan_volume, wants_volume
from devcluster.storage import LOCAL_CLASS, PROVISIONER, STORAGE_CLASS

ROOT = Path("/r/volumes")


def claim(*, node: str = "", **spec: object) -> Claim:
    full = {
        "storageClassName": STORAGE_CLASS,
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeMode": "Filesystem",
    } | spec
    meta = {"name": "c", "namespace": "n", "uid": "u1", "annotations": {SELECTED_NODE: node} if node else {}}
    return msgspec.convert({"metadata": meta, "spec": full}, Claim)


def volume(*, phase: str = "Released", path: str = "/r/volumes/pvc-u1", by: str = PROVISIONER, policy: str = "Delete"):
    return msgspec.convert(
        {
            "metadata": {"name": "pvc-u1", "annotations": {"pv.kubernetes.io/provisioned-by": by}},
            "spec": {"hostPath": {"path": path}, "persistentVolumeReclaimPolicy": policy},
            "status": {"phase": phase},
        },
        Volume,
    )


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, True),
        ({"volumeName": "v"}, False),
        ({"storageClassName": "other"}, False),
        ({"storageClassName": None}, False),
        ({"volumeMode": "Block"}, False),
        ({"storageClassName": LOCAL_CLASS}, False),
        ({"storageClassName": LOCAL_CLASS, "node": "node-2"}, True),
    ],
)
def test_only_claims_of_our_class_without_a_volume_get_one(spec: dict, wanted: bool):
    assert wants_volume(claim(**spec)) is wanted


def test_a_volume_is_tied_to_its_claim_and_named_after_its_uid():
    plan = plan_volume(claim(), ROOT)
    assert plan["metadata"]["name"] == "pvc-u1"
    assert plan["spec"]["claimRef"]["uid"] == "u1"
    assert plan["spec"]["accessModes"] == ["ReadWriteMany"]
    assert plan["spec"]["hostPath"] == {"path": "/r/volumes/pvc-u1", "type": "DirectoryOrCreate"}


def test_a_local_volume_can_be_mounted_on_the_node_of_its_first_consumer_alone():
    plan = plan_volume(claim(storageClassName=LOCAL_CLASS, node="node-2"), ROOT)
    [term] = plan["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2"]}]
    assert plan["spec"]["storageClassName"] == LOCAL_CLASS
    assert "nodeAffinity" not in plan_volume(claim(), ROOT)["spec"]


@pytest.mark.parametrize(
    ("change", "delete"),
    [
        ({}, True),
        ({"phase": "Bound"}, False),
        ({"phase": "Available"}, False),
        ({"by": "somebody else"}, False),
        ({"policy": "Retain"}, False),
        ({"path": "/etc"}, False),
        ({"path": "/r/volumes"}, False),
    ],
)
def test_only_our_released_volumes_are_deleted_and_never_a_folder_elsewhere(change: dict, delete: bool):
    assert is_to_delete(volume(**change), ROOT) is delete
