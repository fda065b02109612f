"""What the objects of training-operator v1 and mpi-operator v2 have in common: labels, replicas of each role, and the
runPolicy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sunkpy.core.gang.families import declaration
from sunkpy.core.gang.families.declaration import BadDeclaration, count
from sunkpy.core.model.objects import Condition, Owner, Pod, Wire

GROUP: Final = "kubeflow.org"

OPERATOR: Final = "training.kubeflow.org/operator-name"
TYPE: Final = "training.kubeflow.org/replica-type"
ROLE: Final = "training.kubeflow.org/job-role"
INDEX: Final = "training.kubeflow.org/replica-index"

WORKER: Final = "worker"
LAUNCHER: Final = "launcher"


class SchedulingPolicy(Wire, frozen=True, kw_only=True):
    """The schedulingPolicy of a Kubeflow job. `min_available`: how many pods of all roles together must start at once;
    the other pods are elastic.
    """

    min_available: int | None = None


class RunPolicy(Wire, frozen=True, kw_only=True):
    """The runPolicy of a Kubeflow job: whether it is suspended, how often failures are retried, and how many pods must
    start at once.
    """

    suspend: bool | None = False
    backoff_limit: int | None = None
    scheduling_policy: SchedulingPolicy | None = None


class ReplicaSpec(Wire, frozen=True, kw_only=True):
    """What a Kubeflow job says of one role: how many pods it has, and their restartPolicy. None: the operator's
    default.
    """

    replicas: int | None = None
    restart_policy: str | None = None


class Status(declaration.Conditions, frozen=True, kw_only=True):
    """The status of an object of training-operator or mpi-operator. mpi-operator sets the condition Failed also when a
    pod was evicted: as long as there is no completion time, the workload goes on.
    """

    completion_time: str | None = None
    conditions: tuple[Condition, ...] = ()


def index(pod: Pod) -> int:
    """Return the number of a pod in its role, from its label; -1 if the label is missing."""
    return declaration.ordinal(pod.labels.get(INDEX))


def seats(owner: Owner, sizes: Mapping[str, int], policy: RunPolicy, *, least_workers: int | None) -> dict[str, int]:
    """Return for each role how many of its pods start together in the gang's job: all its replicas, except elastic
    workers. Elastic workers are those beyond the minimum that the spec declares, with the highest numbers; each has a
    job of its own.

    Raises:
        BadDeclaration: a number is impossible, or contradicts another.
    """
    held = {role: count(owner, f"replicas of {role}", size) for role, size in sizes.items()}
    workers, total = held.get(WORKER, 0), sum(held.values())
    whose = f"{owner.kind} {'/'.join(owner.key)}"
    if least_workers is not None:
        count(owner, "spec.elasticPolicy.minReplicas", least_workers, least=1)
        if least_workers > workers:
            raise BadDeclaration(
                f"{whose}: spec.elasticPolicy.minReplicas is {least_workers}, more than the {workers} workers"
            )
        held[WORKER] = least_workers
    least = policy.scheduling_policy.min_available if policy.scheduling_policy else None
    if least is not None:
        field = "spec.runPolicy.schedulingPolicy.minAvailable"
        count(owner, field, least, least=1)
        if least > total:
            raise BadDeclaration(f"{whose}: {field} is {least}, more than the {total} pods")
        if least_workers is None and WORKER in held:
            held[WORKER] = max(workers - (total - least), 0)
    return held
