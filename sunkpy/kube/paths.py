"""Where objects live in the API, and which of a collection are meant."""

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
    """A collection, or the part of it that both selectors choose."""

    path: str
    label_selector: str = ""
    field_selector: str = ""

    @property
    def params(self) -> dict[str, str]:
        """The selectors as a query."""
        pairs = (("labelSelector", self.label_selector), ("fieldSelector", self.field_selector))
        return {key: value for key, value in pairs if value}


def node(name: str) -> str:
    """`/api/v1/nodes/<name>`: a Node, which has no namespace."""
    return f"{NODES}/{name}"


def pods(namespace: str = "") -> str:
    """The pods of a namespace, or of all."""
    return f"/api/v1/namespaces/{namespace}/pods" if namespace else ALL_PODS


def pod(namespace: str, name: str) -> str:
    """`…/pods/<name>`; its binding and status are below it."""
    return f"{pods(namespace)}/{name}"


def on_node(node: str) -> str:
    """Field selector of the pods that are on a node and have not ended. Anybody may leave thousands that have ended."""
    return f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"


def claims(namespace: str = "") -> str:
    """The PersistentVolumeClaims of a namespace, or of all."""
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims" if namespace else ALL_CLAIMS


def claim(namespace: str, name: str) -> str:
    """A PersistentVolumeClaim: the wish for a volume."""
    return f"{claims(namespace)}/{name}"


def resource_claims(namespace: str) -> str:
    """The ResourceClaims of a namespace."""
    return f"{_RESOURCE}/namespaces/{namespace}/resourceclaims"


def resource_claim(namespace: str, name: str) -> str:
    """A ResourceClaim: the wish for devices, and, in its status, which they are."""
    return f"{resource_claims(namespace)}/{name}"


def service_account_token(namespace: str, name: str) -> str:
    """The path at which tokens of a ServiceAccount are made."""
    return f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"


def nodesets(namespace: str = "") -> str:
    """The NodeSets of a namespace, or of all."""
    return f"{_GROUP}/namespaces/{namespace}/{names.NODESET_PLURAL}" if namespace else ALL_NODESETS


def nodeset(namespace: str, name: str) -> str:
    """`…/nodesets/<name>`, of our own API group."""
    return f"{nodesets(namespace)}/{name}"


def statefulsets(namespace: str) -> str:
    """The StatefulSets of a namespace."""
    return f"/apis/apps/v1/namespaces/{namespace}/statefulsets"


def scale(namespace: str, statefulset: str) -> str:
    """The path of the scale of a StatefulSet: how many pods it has, and nothing else of it."""
    return f"{statefulsets(namespace)}/{statefulset}/scale"


def config_map(namespace: str, name: str) -> str:
    """A ConfigMap."""
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}"


def kueue_topology(name: str) -> str:
    """A Topology of Kueue, which has no namespace."""
    return f"/apis/kueue.x-k8s.io/v1beta1/topologies/{name}"


def cron_jobs(namespace: str = "") -> str:
    """The CronJobs of a namespace, or of all."""
    return f"/apis/batch/v1/namespaces/{namespace}/cronjobs" if namespace else "/apis/batch/v1/cronjobs"


def jobs(namespace: str) -> str:
    """The Jobs of a namespace: where one is created."""
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"


def disruption_budget(namespace: str, name: str) -> str:
    """A PodDisruptionBudget: what holds evictions back."""
    return f"{disruption_budgets(namespace)}/{name}"


def disruption_budgets(namespace: str) -> str:
    """The PodDisruptionBudgets of a namespace."""
    return f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"


def events(namespace: str) -> str:
    """The Events of a namespace, those of events.k8s.io: `kubectl describe` shows them as it does the old ones."""
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


def secrets(namespace: str) -> str:
    """The Secrets of a namespace: where the keys of a Slurm cluster are made."""
    return f"/api/v1/namespaces/{namespace}/secrets"


def leases(namespace: str) -> str:
    """The Leases of a namespace: where one is created."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def lease(namespace: str, name: str) -> str:
    """The path of one Lease: the lock of a leader election."""
    return f"{leases(namespace)}/{name}"


def root(api_version: str) -> str:
    """The beginning of all paths of a group and version, such as `apps/v1`, or `v1`."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def collection(api_version: str, resource: str, namespace: str = "") -> str:
    """The path of all objects of a resource, in any group; if a namespace is given, only of this one."""
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{root(api_version)}{within}/{resource}"


def status(path: str) -> str:
    """The status subresource of the object at `path`: a write there changes no spec."""
    return f"{path}/status"
