"""The StorageClasses and the process behind them.

All nodes share this machine, so a folder of it is a volume every node can mount: ReadWriteOnce and ReadWriteMany alike.
Capacity is not enforced. `local` waits for its first consumer, and its volumes can be mounted on that node alone.
"""

import sys
from pathlib import Path

from devcluster import pki
from devcluster.api import Api
from devcluster.layout import Layout
from devcluster.process import Daemon

PROVISIONER = "devcluster.sunkpy.dev/folder"
STORAGE_CLASS = "standard"
"""The default one."""

LOCAL_CLASS = "local"


def storage_class(name: str) -> tuple[str, dict[str, object]]:
    """``(path, object)`` of a StorageClass."""
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
    """Create the StorageClasses."""
    for name in (STORAGE_CLASS, LOCAL_CLASS):
        api.apply(*storage_class(name))
