"""The family of the jobs of Kubeflow's training-operator v1: PyTorchJob, TFJob, XGBoostJob, PaddleJob, JAXJob, MXJob,
MPIJob v1.

All replicas are one gang, and all exist at once. Elastic workers, those beyond elasticPolicy.minReplicas or
schedulingPolicy.minAvailable, get jobs of their own. A pod that is made again has the old pod's name, and no label
tells the two apart, so the gang has no generation (the part of its identity that tells restarts apart). An MPIJob of
version v2beta1 belongs to the family of mpi-operator.

The operator usually replaces evicted pods, but not always. For each pod that the operator sees Failed, it waits until
the pod's deletion is reported, also for a pod that is already gone. Until this wait times out (ExpectationsTimeout) the
operator does nothing for the job, and no event ends the wait earlier.

Sources: training-operator v1.8.1 (JAXJob: v1.9.2) pkg/apis/kubeflow.org/v1/*_types.go and *_defaults.go,
pkg/controller.v1/common/pod.go (ReconcilePods: what is restarted), control/pod_control.go (DeletePod), Reconcile and
UpdateJobStatus of each kind's controller (what waits for deletions; who decides).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families import declaration, kubeflow
from sunkpy.core.gang.families.belonging import made_by, nearest
from sunkpy.core.gang.families.kubeflow import GROUP, LAUNCHER, TYPE, WORKER, ReplicaSpec, RunPolicy
from sunkpy.core.gang.gang import Family, Gang, Owners, Role, extra_unit
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Kind, Owner, OwnerReference, Pod, Wire

_ON_FAILURE: Final = "OnFailure"
_NEVER: Final = "Never"

RESTART_POLICIES: Final = {
    "PyTorchJob": _ON_FAILURE,
    "TFJob": _NEVER,
    "XGBoostJob": _NEVER,
    "PaddleJob": _ON_FAILURE,
    "JAXJob": _NEVER,
    "MXJob": _NEVER,
    "MPIJob": _NEVER,
}
"""Each kind of training-operator, and the default restartPolicy of its pods."""

KINDS: Final = {kind: Kind(group=GROUP, kind=kind) for kind in RESTART_POLICIES}

_RANKED: Final = ("chief", "master", LAUNCHER, "scheduler", "server", WORKER)
"""Roles in rank order; other roles follow, by name."""

_LEADERS: Final = ("chief", "master", LAUNCHER, "scheduler")
"""Roles whose exit codes are the job's. If a job has none of them, the workers' exit codes count; of a TFJob only that
of the first worker, unless its successPolicy is AllWorkers.
"""

_OVER: Final = ("Succeeded", "Failed")


class _Elastic(Wire, frozen=True, kw_only=True):
    min_replicas: int | None = None
    max_replicas: int | None = None


class _Spec(Wire, frozen=True, kw_only=True):
    """The spec of a job of training-operator, of any kind. Each kind (PyTorchJob, TFJob …) has its replicas in a field
    of its own.
    """

    run_policy: RunPolicy | None = None
    elastic_policy: _Elastic | None = None
    success_policy: str | None = None
    pytorch_replica_specs: Mapping[str, ReplicaSpec] = {}
    tf_replica_specs: Mapping[str, ReplicaSpec] = {}
    xgb_replica_specs: Mapping[str, ReplicaSpec] = {}
    paddle_replica_specs: Mapping[str, ReplicaSpec] = {}
    jax_replica_specs: Mapping[str, ReplicaSpec] = {}
    mx_replica_specs: Mapping[str, ReplicaSpec] = {}
    mpi_replica_specs: Mapping[str, ReplicaSpec] = {}

    @property
    def policy(self) -> RunPolicy:
        return self.run_policy or RunPolicy()

    @property
    def replicas(self) -> dict[str, ReplicaSpec]:
        """What the job says of each role, in rank order. The roles are spelled as in the label of their pods, in lower
        case.
        """
        by_kind = (
            self.pytorch_replica_specs, self.tf_replica_specs, self.xgb_replica_specs, self.paddle_replica_specs,
            self.jax_replica_specs, self.mx_replica_specs, self.mpi_replica_specs,
        )  # fmt: skip
        found = {role.lower(): each for specs in by_kind for role, each in specs.items()}
        return {role: found[role] for role in sorted(found, key=_rank)}


def _rank(role: str) -> tuple[int, str]:
    return (_RANKED.index(role) if role in _RANKED else len(_RANKED), role)


def _reference(pod: Pod) -> OwnerReference | None:
    """Return the pod's owner reference to its controller, if that is a job of training-operator v1 (PyTorchJob, TFJob
    …); None if not.
    """
    found = (made_by(pod, kind) for kind in KINDS.values())
    return next((each for each in found if each and each.api_version == f"{GROUP}/v1"), None)


def _identify(pod: Pod, owners: Owners) -> GangId | None:
    found = _reference(pod)
    if found is None:
        return None
    job = nearest(owners, KINDS[found.kind])
    unit = extra_unit(pod) if job and _is_elastic(pod, job) else ""
    return GangId(namespace=pod.metadata.namespace, name=found.name, uid=found.uid, unit=unit)


def _is_elastic(pod: Pod, job: Owner) -> bool:
    try:
        spec = job.spec_as(_Spec)
        held = _seats(job, spec)
    except (msgspec.ValidationError, RecursionError, declaration.BadDeclaration):
        return False  # `assemble` reports the error
    of_role = pod.labels.get(TYPE) == WORKER and WORKER in held
    return of_role and held[WORKER] <= kubeflow.index(pod) < _sizes(job, spec)[WORKER]


def _sizes(job: Owner, spec: _Spec) -> dict[str, int]:
    """Return the number of replicas of each role. Where the spec has none, it is the default of training-operator."""
    unsaid = 0 if job.kind == "MPIJob" else 1
    return {
        role: (unsaid if role == WORKER else 1) if each.replicas is None else each.replicas
        for role, each in spec.replicas.items()
    }


def _seats(job: Owner, spec: _Spec) -> dict[str, int]:
    sizes = _sizes(job, spec)
    return kubeflow.seats(job, sizes, spec.policy, least_workers=_least_workers(spec.elastic_policy, sizes))


def _least_workers(elastic: _Elastic | None, sizes: Mapping[str, int]) -> int | None:
    """Return the smallest number of workers of an elastic job; None if the job is not elastic. If minReplicas is not
    set, it is maxReplicas, the operator's default, but not more than the job's workers.
    """
    if elastic is None or elastic.min_replicas is not None:
        return elastic.min_replicas if elastic else None
    return None if elastic.max_replicas is None else min(elastic.max_replicas, sizes.get(WORKER, 0))


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    found = _reference(pods[0])
    assert found is not None, "a pod of this family has an owner of a kind in KINDS"
    job = declaration.required(owners, KINDS[found.kind], called=f"{found.kind} {id.namespace}/{id.name}")
    spec = declaration.declared(job, _Spec)
    gang = Gang(
        id=id,
        roles=tuple(_roles(job, spec, pods)),
        kind=f"{job.kind} {id}",
        expects_more=declaration.is_alive(job, _OVER, suspended=bool(spec.policy.suspend)),
        final_because=_final_because(job.kind, spec),
        suspension=declaration.suspension(job, "spec", "runPolicy", "suspend"),
    )
    return declaration.make(gang, owners)


def _roles(job: Owner, spec: _Spec, pods: Sequence[Pod]) -> list[Role]:
    held = _seats(job, spec)
    leaders = [role for role in _LEADERS if role in held]
    roles = [
        _role(name, size, [pod for pod in pods if pod.labels.get(TYPE) == name], decides=name in (leaders or (WORKER,)))
        for name, size in held.items()
    ]
    if job.kind == "TFJob" and not leaders and spec.success_policy != "AllWorkers":
        return [part for role in roles for part in (_parted(role) if role.name == WORKER else (role,))]
    return roles


def _role(name: str, seats: int, pods: Sequence[Pod], *, decides: bool) -> Role:
    members = declaration.numbered(pods, _number, seats)
    return Role(name=name, seats=seats, first=seats, members=members, decides=decides)


def _number(pod: Pod) -> int:
    """Return the number of a pod in its role. The launcher of an MPIJob has no number in its labels and is the only one
    of its role: its number is 0.
    """
    return 0 if pod.labels.get(TYPE) == LAUNCHER else kubeflow.index(pod)


def _parted(workers: Role) -> tuple[Role, ...]:
    """Return the workers as two roles: the first worker, whose exit code becomes that of the job, and all other
    workers.
    """
    first = Role(
        name="worker 0",
        seats=min(workers.seats, 1),
        first=min(workers.seats, 1),
        members=tuple(member for member in workers.members if member.index == 0),
    )
    others = max(workers.seats - 1, 0)
    members = tuple(
        msgspec.structs.replace(member, index=member.index - 1) for member in workers.members if member.index
    )
    return first, Role(name=WORKER, seats=others, first=others, members=members, decides=False)


def _final_because(kind: str, spec: _Spec) -> str:
    """Say why the eviction of pods ends the whole job of this kind; empty if the operator replaces evicted pods. To the
    operator an evicted pod has failed, with an exit code of 128 or more.
    """
    unsaid = RESTART_POLICIES[kind]
    stuck = [role for role, each in spec.replicas.items() if (each.restart_policy or unsaid) == _NEVER]
    if stuck:
        return f"restartPolicy of {', '.join(stuck)} is Never: an evicted pod counts as failed, and the {kind} with it"
    if spec.policy.backoff_limit == 0:
        return f"backoffLimit is 0: an evicted pod counts as failed, and the {kind} with it"
    return ""


FAMILY = Family(
    name="training-operator",
    known_by="its owner is a job of kubeflow.org/v1",
    identify=_identify,
    assemble=_assemble,
    reads=tuple(KINDS.values()),
)
