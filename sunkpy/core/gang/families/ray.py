"""The family of RayClusters, alone or below a RayJob or RayService: the head and its workers have one job.

KubeRay makes the head and all workers at once; the workers then wait for the head in their init container. So all pods
of the gang must exist before the job is submitted: the head, and `replicas`·`numOfHosts` pods of each worker group, or
`minReplicas`·`numOfHosts` if the autoscaler in the head adds and removes workers. Workers that the autoscaler adds get
jobs of their own.

A replica with several hosts must run as a whole. Labels of KubeRay 1.6 and later (feature RayMultihostIndexing) say
which pods are one replica: then a replica beyond the minimum is one gang. With older versions, each pod of such a
replica has a job of its own.

Each RayCluster is a gang, so a RayService has two gangs during an upgrade, and a retried RayJob has a new one. The
submitter of a RayJob belongs to a batch Job, not to this family.

Source: KubeRay v1.4.2 and v1.6.0, ray-operator: apis/ray/v1/{raycluster,rayjob}_types.go,
controllers/ray/raycluster_controller.go (reconcilePods), controllers/ray/common/pod.go (labelPod, the containers that
it adds), controllers/ray/utils/util.go (GetWorkerGroupDesiredReplicas), utils/validation.go (who can be suspended).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families.belonging import made_by, nearest
from sunkpy.core.gang.families.declaration import (
    BadDeclaration,
    Template,
    about,
    at_least,
    few,
    make,
    ordinal,
    required,
)
from sunkpy.core.gang.gang import Family, Gang, Member, Owners, Role, Suspension, by_seniority, ranked
from sunkpy.core.gang.identity import GangId, token
from sunkpy.core.model.objects import Container, Kind, Owner, Pod, PodSpec, Resources, Wire

RAY_CLUSTER: Final = Kind(group="ray.io", kind="RayCluster")
RAY_JOB: Final = Kind(group="ray.io", kind="RayJob")
RAY_SERVICE: Final = Kind(group="ray.io", kind="RayService")

NODE_TYPE: Final = "ray.io/node-type"
GROUP: Final = "ray.io/group"
REPLICA_NAME: Final = "ray.io/worker-group-replica-name"
REPLICA_INDEX: Final = "ray.io/worker-group-replica-index"
HOST_INDEX: Final = "ray.io/replica-host-index"

_HEAD: Final = "head"
_WORKER: Final = "worker"

_AUTOSCALER: Final = Resources(
    requests={"cpu": "500m", "memory": "512Mi"}, limits={"cpu": "500m", "memory": "512Mi"}
)  # BuildAutoscalerContainer
_WAIT_GCS_READY: Final = Container(
    name="wait-gcs-ready",
    resources=Resources(requests={"cpu": "200m", "memory": "256Mi"}, limits={"cpu": "200m", "memory": "256Mi"}),
)  # DefaultWorkerPodTemplate


class _Autoscaler(Wire, frozen=True, kw_only=True):
    resources: Resources | None = None


class _Head(Wire, frozen=True, kw_only=True):
    template: Template = Template()


class _Group(Wire, frozen=True, kw_only=True):
    """A worker group in the spec of a RayCluster. Its defaults are those of the CustomResourceDefinition."""

    group_name: str
    replicas: int | None = None
    min_replicas: int | None = 0
    max_replicas: int | None = None
    num_of_hosts: int = 1
    suspend: bool | None = False
    template: Template = Template()


class _Cluster(Wire, frozen=True, kw_only=True):
    suspend: bool | None = False
    enable_in_tree_autoscaling: bool | None = False
    autoscaler_options: _Autoscaler | None = None
    head_group_spec: _Head = _Head()
    worker_group_specs: tuple[_Group, ...] | None = ()


class _Job(Wire, frozen=True, kw_only=True):
    backoff_limit: int | None = 0
    shutdown_after_job_finishes: bool = False


def _identify(pod: Pod, owners: Owners) -> GangId | None:
    cluster = made_by(pod, RAY_CLUSTER)
    if cluster is None or pod.labels.get(NODE_TYPE) not in (_HEAD, _WORKER):
        return None
    unit = _unit(pod, nearest(owners, RAY_CLUSTER))
    return GangId(namespace=pod.metadata.namespace, name=cluster.name, uid=cluster.uid, unit=unit)


def _unit(pod: Pod, cluster: Owner | None) -> str:
    """Return the name of the worker replica that a pod belongs to, if this replica has several hosts and the autoscaler
    added it: such a replica is a gang of its own. Empty for all other pods.

    A replica keeps its number, and its replacement gets the number again. A replica beyond the group's minimum counts
    as added; only people change the minimum.
    """
    if cluster is None or REPLICA_NAME not in pod.labels:
        return ""
    try:
        spec = cluster.spec_as(_Cluster)
    except (msgspec.ValidationError, RecursionError):  # `assemble` reports the error
        return ""
    group = next((each for each in spec.worker_group_specs or () if each.group_name == pod.labels.get(GROUP)), None)
    if group is None or group.num_of_hosts < 2 or not spec.enable_in_tree_autoscaling:
        return ""
    return token(pod.labels[REPLICA_NAME]) if _number(pod, REPLICA_INDEX) >= (group.min_replicas or 0) else ""


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    called = f"RayCluster {id.namespace}/{id.name}"
    kind = f"{_below(owners)}{called}"
    cluster = required(owners, RAY_CLUSTER, called=called)
    spec = cluster.spec_as(_Cluster)
    with about(called):
        roles = _added_replica(spec, pods) if id.unit else _roles(spec, pods)
    if id.unit:
        return make(Gang(id=id, roles=roles, kind=f"{kind}, replica {id.unit}"), owners)
    return msgspec.structs.replace(
        make(Gang(id=id, roles=roles, kind=kind), owners),
        expects_more=not spec.suspend and not cluster.is_deleting,
        final_because=_final_because(nearest(owners, RAY_JOB)),
        suspension=_suspension(cluster, owners),
    )


def _below(owners: Owners) -> str:
    top = nearest(owners, RAY_JOB) or nearest(owners, RAY_SERVICE)
    return f"{top.kind} {'/'.join(top.key)}, " if top is not None else ""


def _roles(spec: _Cluster, pods: Sequence[Pod]) -> tuple[Role, ...]:
    groups = few(spec.worker_group_specs or (), field="spec.workerGroupSpecs")
    if len({group.group_name for group in groups}) < len(groups):
        raise BadDeclaration("spec.workerGroupSpecs names a group twice")
    heads = [pod for pod in pods if pod.labels.get(NODE_TYPE) == _HEAD]
    head = Role(name=_HEAD, seats=1, first=1, members=by_seniority(heads, 1), shape=_head_shape(spec))
    return (head, *(_workers(group, spec, pods) for group in groups))


def _workers(group: _Group, spec: _Cluster, pods: Sequence[Pod]) -> Role:
    own = [pod for pod in pods if pod.labels.get(NODE_TYPE) == _WORKER and pod.labels.get(GROUP) == group.group_name]
    hosts = at_least(group.num_of_hosts, 1, field=f"worker group {group.group_name}: numOfHosts")
    seats = _replicas(group, autoscaling=bool(spec.enable_in_tree_autoscaling)) * hosts
    return Role(
        name=group.group_name,
        seats=seats,
        first=seats,
        members=_seated(own, seats, hosts),
        shape=_worker_shape(group),
        decides=False,
    )


def _replicas(group: _Group, *, autoscaling: bool) -> int:
    """Return how many replicas of a worker group the cluster always has, whatever its load
    (GetWorkerGroupDesiredReplicas). With autoscaling this is the group's minimum.

    Raises:
        BadDeclaration: a number is impossible, or contradicts another.
    """
    field = f"worker group {group.group_name}: "
    least = at_least(group.min_replicas or 0, 0, field=f"{field}minReplicas")
    if group.max_replicas is not None and least > group.max_replicas:
        raise BadDeclaration(f"{field}minReplicas {least} is above maxReplicas {group.max_replicas}")
    if group.suspend:
        return 0
    if autoscaling or group.replicas is None:
        return least
    most = group.replicas if group.max_replicas is None else min(group.replicas, group.max_replicas)
    return max(least, at_least(most, 0, field=f"{field}replicas"))


def _seated(pods: Sequence[Pod], seats: int, hosts: int) -> tuple[Member, ...]:
    if pods and all(_number(pod, REPLICA_INDEX) >= 0 for pod in pods):
        seat_of = {pod.uid: _number(pod, REPLICA_INDEX) * hosts + max(0, _number(pod, HOST_INDEX)) for pod in pods}
        return ranked((pod for pod in pods if seat_of[pod.uid] < seats), lambda pod: seat_of[pod.uid])
    return by_seniority(pods, seats)


def _added_replica(spec: _Cluster, pods: Sequence[Pod]) -> tuple[Role, ...]:
    name = pods[0].labels.get(GROUP, "")
    group = next((each for each in spec.worker_group_specs or () if each.group_name == name), None)
    if group is None:
        raise BadDeclaration(f"spec.workerGroupSpecs has no group {name}")
    hosts, members = group.num_of_hosts, ranked(pods, lambda pod: max(0, _number(pod, HOST_INDEX)))
    return (Role(name=name, seats=hosts, first=hosts, members=members, shape=_worker_shape(group)),)


def _number(pod: Pod, label: str) -> int:
    return ordinal(pod.labels.get(label))


def _head_shape(spec: _Cluster) -> PodSpec:
    shape = spec.head_group_spec.template.shape
    if not spec.enable_in_tree_autoscaling:
        return shape
    options = spec.autoscaler_options or _Autoscaler()
    autoscaler = Container(name="autoscaler", resources=options.resources or _AUTOSCALER)
    return msgspec.structs.replace(shape, containers=(*shape.containers, autoscaler))


def _worker_shape(group: _Group) -> PodSpec:
    shape = group.template.shape
    return msgspec.structs.replace(shape, init_containers=(*shape.init_containers, _WAIT_GCS_READY))


def _final_because(job: Owner | None) -> str:
    if job is None or (job.spec_as(_Job).backoff_limit or 0) > 0:
        return ""
    return f"the Ray job is lost with its head, and RayJob {'/'.join(job.key)} has spec.backoffLimit 0: it ends Failed"


def _suspension(cluster: Owner, owners: Owners) -> Suspension | None:
    """Return how to suspend the gang: by the RayCluster, or, if a RayJob owns the RayCluster, by that RayJob. None if
    the RayJob does not remove its cluster at its end, or below a RayService, which would see its cluster fail.
    """
    if nearest(owners, RAY_SERVICE) is not None:
        return None
    job = nearest(owners, RAY_JOB)
    if job is None:
        return Suspension(owner=cluster)
    return Suspension(owner=job) if job.spec_as(_Job).shutdown_after_job_finishes else None


FAMILY = Family(
    name="Ray",
    known_by="its owner is a RayCluster, label ray.io/node-type",
    identify=_identify,
    assemble=_assemble,
    reads=(RAY_CLUSTER, RAY_JOB),
)
