"""Paths of objects and collections at the apiserver, and selectors that choose a part of a collection."""

from __future__ import annotations

import msgspec

from sunkpy.core import names

NODES = "/api/v1/nodes"
ALL_PODS = "/api/v1/pods"
ALL_EVENTS = "/api/v1/events"
NAMESPACES = "/api/v1/namespaces"
ALL_CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
_STORAGE = "/apis/storage.k8s.io/v1"
STORAGE_CLASSES = f"{_STORAGE}/storageclasses"
STORAGE_DRIVERS = f"{_STORAGE}/csidrivers"
FREE_STORAGE = f"{_STORAGE}/csistoragecapacities"
_RESOURCE = "/apis/resource.k8s.io/v1"
RESOURCE_CLAIMS = f"{_RESOURCE}/resourceclaims"
RESOURCE_CLAIM_TEMPLATES = f"{_RESOURCE}/resourceclaimtemplates"
RESOURCE_SLICES = f"{_RESOURCE}/resourceslices"
DEVICE_CLASSES = f"{_RESOURCE}/deviceclasses"
_GROUP = f"/apis/{names.API_GROUP}/{names.API_VERSION}"
ALL_NODESETS = f"{_GROUP}/{names.NODESET_PLURAL}"


class Selection(msgspec.Struct, frozen=True):
    """A collection of objects, or the part of it that both selectors choose."""

    path: str
    label_selector: str = ""
    field_selector: str = ""

    @property
    def params(self) -> dict[str, str]:
        """The selectors as parameters of a query."""
        pairs = (("labelSelector", self.label_selector), ("fieldSelector", self.field_selector))
        return {key: value for key, value in pairs if value}


def node(name: str) -> str:
    """Return the path of a Node, which has no namespace: `/api/v1/nodes/<name>`."""
    return f"{NODES}/{name}"


def pods(namespace: str = "") -> str:
    """Return the path of the pods of a namespace, or of all namespaces if `namespace` is empty."""
    return f"/api/v1/namespaces/{namespace}/pods" if namespace else ALL_PODS


def pod(namespace: str, name: str) -> str:
    """Return the path of a pod, `…/pods/<name>`; its binding and status are below it."""
    return f"{pods(namespace)}/{name}"


def on_node(node: str) -> str:
    """Return the field selector of the pods on a node that have not ended; a node may have thousands that have."""
    return f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"


def claims(namespace: str = "") -> str:
    """Return the path of the PersistentVolumeClaims of a namespace, or of all namespaces if `namespace` is empty."""
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims" if namespace else ALL_CLAIMS


def claim(namespace: str, name: str) -> str:
    """Return the path of a PersistentVolumeClaim."""
    return f"{claims(namespace)}/{name}"


def resource_claims(namespace: str) -> str:
    """Return the path of the ResourceClaims of a namespace."""
    return f"{_RESOURCE}/namespaces/{namespace}/resourceclaims"


def resource_claim(namespace: str, name: str) -> str:
    """Return the path of a ResourceClaim."""
    return f"{resource_claims(namespace)}/{name}"


def service_account_token(namespace: str, name: str) -> str:
    """Return the path at which tokens of a ServiceAccount are made."""
    return f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"


def nodesets(namespace: str = "") -> str:
    """Return the path of the NodeSets of a namespace, or of all namespaces if `namespace` is empty."""
    return f"{_GROUP}/namespaces/{namespace}/{names.NODESET_PLURAL}" if namespace else ALL_NODESETS


def nodeset(namespace: str, name: str) -> str:
    """Return the path of a NodeSet, `…/nodesets/<name>`, in sunkpy's own API group."""
    return f"{nodesets(namespace)}/{name}"


def statefulsets(namespace: str) -> str:
    """Return the path of the StatefulSets of a namespace."""
    return f"/apis/apps/v1/namespaces/{namespace}/statefulsets"


def scale(namespace: str, statefulset: str) -> str:
    """Return the path of a StatefulSet's scale subresource, which says how many pods it shall have."""
    return f"{statefulsets(namespace)}/{statefulset}/scale"


def config_map(namespace: str, name: str) -> str:
    """Return the path of a ConfigMap."""
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}"


def kueue_topology(name: str) -> str:
    """Return the path of a Topology of Kueue, which has no namespace."""
    return f"/apis/kueue.x-k8s.io/v1beta1/topologies/{name}"


def cron_jobs(namespace: str = "") -> str:
    """Return the path of the CronJobs of a namespace, or of all namespaces if `namespace` is empty."""
    return f"/apis/batch/v1/namespaces/{namespace}/cronjobs" if namespace else "/apis/batch/v1/cronjobs"


def jobs(namespace: str) -> str:
    """Return the path of the Jobs of a namespace."""
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"


def disruption_budget(namespace: str, name: str) -> str:
    """Return the path of a PodDisruptionBudget."""
    return f"{disruption_budgets(namespace)}/{name}"


def disruption_budgets(namespace: str) -> str:
    """Return the path of the PodDisruptionBudgets of a namespace."""
    return f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"


def events(namespace: str) -> str:
    """Return the path of a namespace's Events in events.k8s.io. `kubectl describe` shows them like core Events."""
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


def secrets(namespace: str) -> str:
    """Return the path of the Secrets of a namespace."""
    return f"/api/v1/namespaces/{namespace}/secrets"


def leases(namespace: str) -> str:
    """Return the path of the Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def lease(namespace: str, name: str) -> str:
    """Return the path of a Lease, which is the lock of a leader election."""
    return f"{leases(namespace)}/{name}"


def root(api_version: str) -> str:
    """Return the beginning of all paths of a group and version. `api_version`: such as `apps/v1`, or `v1` for the core
    group.
    """
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def collection(api_version: str, resource: str, namespace: str = "") -> str:
    """Return the path of all objects of a resource, in any group; if a namespace is given, only of this one."""
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{root(api_version)}{within}/{resource}"


def status(path: str) -> str:
    """Return the path of the status subresource of the object at `path`. A write there changes no spec."""
    return f"{path}/status"
