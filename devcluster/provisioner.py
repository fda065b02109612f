"""``python -m devcluster.provisioner KUBECONFIG FOLDER``: makes a folder and a PersistentVolume for each claim.

It removes the folder of a released volume. It has two watches, one thread each. It follows the contract of external
provisioners in kubernetes-sigs/sig-storage-lib-external-provisioner.
"""

import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from devcluster.api import Api, ApiError
from devcluster.storage import LOCAL_CLASS, PROVISIONER, STORAGE_CLASS

CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""The annotation with the node that the scheduler of a claim's first pod writes on the claim."""
BACK_OFF_S = 1.0


class Meta(msgspec.Struct, frozen=True):
    """The metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}
    resourceVersion: str = ""  # noqa: N815  (the wire name)


class ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a claim."""

    storage_class_name: str | None = None
    volume_name: str = ""
    access_modes: list[str] = []
    volume_mode: str = "Filesystem"
    resources: dict[str, dict[str, str]] = {}


class Claim(msgspec.Struct, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: Meta
    spec: ClaimSpec


class HostPath(msgspec.Struct, frozen=True):
    """The folder of a volume."""

    path: str


class VolumeSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of a volume's spec that the provisioner reads."""

    host_path: HostPath | None = None
    persistent_volume_reclaim_policy: str = "Retain"


class VolumeStatus(msgspec.Struct, frozen=True):
    """The status of a volume."""

    phase: str = ""


class Volume(msgspec.Struct, frozen=True):
    """A PersistentVolume."""

    metadata: Meta
    spec: VolumeSpec
    status: VolumeStatus = VolumeStatus()


def wants_volume(claim: Claim) -> bool:
    """True if the claim has one of the provisioner's StorageClasses and no volume yet."""
    spec, has_node = claim.spec, SELECTED_NODE in claim.metadata.annotations
    is_ours = spec.storage_class_name == STORAGE_CLASS or (spec.storage_class_name == LOCAL_CLASS and has_node)
    return is_ours and not spec.volume_name and spec.volume_mode == "Filesystem"


def plan_volume(claim: Claim, folder: Path) -> dict[str, object]:
    """Return the PersistentVolume for a claim, bound to it. Its name has the claim's uid, so a retry makes no second
    one.
    """
    name = f"pvc-{claim.metadata.uid}"
    is_local = claim.spec.storage_class_name == LOCAL_CLASS
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "accessModes": claim.spec.access_modes,
            "capacity": {"storage": claim.spec.resources["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.metadata.namespace,
                "name": claim.metadata.name,
                "uid": claim.metadata.uid,
            },
            # A virtual machine does not see the folders of this machine: it makes one of its own.
            "hostPath": {"path": str(folder / name), "type": "DirectoryOrCreate"},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": claim.spec.storage_class_name,
            **({"nodeAffinity": _only_on(claim.metadata.annotations[SELECTED_NODE])} if is_local else {}),
        },
    }


def _only_on(node: str) -> dict[str, object]:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def is_to_delete(volume: Volume, folder: Path) -> bool:
    """True if the volume is the provisioner's, released, and has the reclaim policy Delete."""
    return (
        volume.metadata.annotations.get("pv.kubernetes.io/provisioned-by") == PROVISIONER
        and volume.status.phase == "Released"
        and volume.spec.persistent_volume_reclaim_policy == "Delete"
        and volume.spec.host_path is not None
        and Path(volume.spec.host_path.path).parent == folder
    )


def provision(api: Api, claim: Claim, folder: Path) -> None:
    """Make the folder and the PersistentVolume of a claim."""
    path = folder / f"pvc-{claim.metadata.uid}"
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)
    try:
        api.request("POST", VOLUMES, plan_volume(claim, folder))
    except ApiError as error:
        if error.status != 409:
            raise
        return
    print(f"provisioned {path.name} for {claim.metadata.namespace}/{claim.metadata.name}")


def reclaim(api: Api, volume: Volume) -> None:
    """Delete a volume's folder, then the volume. If it crashes between both, the next pass finishes."""
    assert volume.spec.host_path is not None
    shutil.rmtree(volume.spec.host_path.path, ignore_errors=True)
    try:
        api.request("DELETE", f"{VOLUMES}/{volume.metadata.name}")
    except ApiError as error:
        if error.status != 404:
            raise
    print(f"reclaimed {volume.metadata.name}")


def follow(api: Api, path: str, handle: Callable[[object], None]) -> None:
    """List and watch a collection for ever, and call ``handle`` with each object. After an error, list again soon."""
    while True:
        try:
            answer = api.get(path)
            for item in answer["items"] or []:  # type: ignore[attr-defined]
                handle(item)
            version = msgspec.convert(answer["metadata"], Meta).resourceVersion
            for kind, item in api.watch(path, version):
                if kind == "ERROR":
                    break
                if kind in ("ADDED", "MODIFIED"):
                    handle(item)
        except ApiError as error:
            print(f"{error}; trying again in {BACK_OFF_S:g} s")
            time.sleep(BACK_OFF_S)


def main(kubeconfig: str, folder: str) -> None:
    """Provision and reclaim volumes until killed."""
    api, root = Api(Path(kubeconfig)), Path(folder)

    def on_claim(item: object) -> None:
        claim = msgspec.convert(item, Claim)
        if wants_volume(claim):
            provision(api, claim, root)

    def on_volume(item: object) -> None:
        volume = msgspec.convert(item, Volume)
        if is_to_delete(volume, root):
            reclaim(api, volume)

    threading.Thread(target=follow, args=(api, VOLUMES, on_volume), daemon=True).start()
    follow(api, CLAIMS, on_claim)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
