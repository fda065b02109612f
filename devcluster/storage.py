"""The default StorageClass and the process behind it.

All nodes share this machine, so a folder of it is a volume every node can mount: ReadWriteOnce and ReadWriteMany alike.
Capacity is not enforced.
"""

import sys
from pathlib import Path

from devcluster import pki
from devcluster.api import Api
from devcluster.layout import Layout
from devcluster.process import Daemon

PROVISIONER = "devcluster.sunkpy.dev/folder"
STORAGE_CLASS = "standard"


def storage_class() -> tuple[str, dict[str, object]]:
    """``(path, object)`` of the default StorageClass."""
    return f"/apis/storage.k8s.io/v1/storageclasses/{STORAGE_CLASS}", {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


def provisioner(layout: Layout) -> Daemon:
    """The process that turns claims into folders."""
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
    """Create the StorageClass."""
    api.apply(*storage_class())
