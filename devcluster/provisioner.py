"""``python -m devcluster.provisioner KUBECONFIG FOLDER``: a claim becomes a folder, a released volume's folder goes.

Two watches, one thread each; nothing is asked of the apiserver while nothing changes. The external-provisioner
contract is that of kubernetes-sigs/sig-storage-lib-external-provisioner.
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
"""What the scheduler of a claim's first pod writes on it."""
BACK_OFF_S = 1.0


class Meta(msgspec.Struct, frozen=True):
    """Object metadata."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}
    resourceVersion: str = ""  # noqa: N815  (the wire name)


class ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a claim asks for."""

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
    """What we read of a volume."""

    host_path: HostPath | None = None
    persistent_volume_reclaim_policy: str = "Retain"


class VolumeStatus(msgspec.Struct, frozen=True):
    """Phase of a volume."""

    phase: str = ""


class Volume(msgspec.Struct, frozen=True):
    """A PersistentVolume."""

    metadata: Meta
    spec: VolumeSpec
    status: VolumeStatus = VolumeStatus()


def wants_volume(claim: Claim) -> bool:
    """Whether ``claim`` is ours and still without a volume."""
    spec, has_node = claim.spec, SELECTED_NODE in claim.metadata.annotations
    is_ours = spec.storage_class_name == STORAGE_CLASS or (spec.storage_class_name == LOCAL_CLASS and has_node)
    return is_ours and not spec.volume_name and spec.volume_mode == "Filesystem"


def plan_volume(claim: Claim, folder: Path) -> dict[str, object]:
    """The volume for ``claim``, already tied to it.

    Its name follows from the claim's uid, so a retry makes no second one.
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
    """Whether ``volume`` is ours, released, and meant to go with its claim."""
    return (
        volume.metadata.annotations.get("pv.kubernetes.io/provisioned-by") == PROVISIONER
        and volume.status.phase == "Released"
        and volume.spec.persistent_volume_reclaim_policy == "Delete"
        and volume.spec.host_path is not None
        and Path(volume.spec.host_path.path).parent == folder
    )


def provision(api: Api, claim: Claim, folder: Path) -> None:
    """Make folder and volume for ``claim``."""
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
    """Delete the folder, then the volume: a crash between the two is finished by the next pass."""
    assert volume.spec.host_path is not None
    shutil.rmtree(volume.spec.host_path.path, ignore_errors=True)
    try:
        api.request("DELETE", f"{VOLUMES}/{volume.metadata.name}")
    except ApiError as error:
        if error.status != 404:
            raise
    print(f"reclaimed {volume.metadata.name}")


def follow(api: Api, path: str, handle: Callable[[object], None]) -> None:
    """List, then watch, for ever; any trouble means listing again after a short wait."""
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
    """Serve until killed."""
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
