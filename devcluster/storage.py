"""The StorageClasses of a cluster, and their provisioner's process.

All nodes are on this machine, so each node can mount a folder of it as a volume, ReadWriteOnce and ReadWriteMany alike.
Capacity is not enforced. The class `local` waits for its first consumer, and only that node can mount its volumes.
"""

import sys
from pathlib import Path

from devcluster import pki
from devcluster.api import Api
from devcluster.layout import Layout
from devcluster.process import Daemon

PROVISIONER = "devcluster.sunkpy.dev/folder"
STORAGE_CLASS = "standard"
"""The default StorageClass."""

LOCAL_CLASS = "local"


def storage_class(name: str) -> tuple[str, dict[str, object]]:
    """Return ``(path, object)`` of a StorageClass."""
    is_default = name == STORAGE_CLASS
    return f"/apis/storage.k8s.io/v1/storageclasses/{name}", {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": name,
            "annotations": {"storageclass.kubernetes.io/is-default-class": str(is_default).lower()},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate" if is_default else "WaitForFirstConsumer",
    }


def provisioner(layout: Layout) -> Daemon:
    """Return the provisioner's process, which makes folders for claims."""
    return Daemon(
        name="provisioner",
        argv=[
            sys.executable,
            "-m",
            "devcluster.provisioner",
            str(pki.kubeconfig_path(layout, "provisioner")),
            str(layout.volumes),
        ],
        env={"PYTHONPATH": str(Path(__file__).resolve().parent.parent), "PYTHONUNBUFFERED": "1"},
    )


def apply(api: Api) -> None:
    """Create the StorageClasses of the cluster."""
    for name in (STORAGE_CLASS, LOCAL_CLASS):
        api.apply(*storage_class(name))
