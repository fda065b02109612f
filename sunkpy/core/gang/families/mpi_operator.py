"""The family of MPIJobs v2 of Kubeflow's mpi-operator (Horovod and other MPI programs): workers, and a launcher that
runs mpirun.

Launcher and workers are one gang. The MPIJob owns the workers. A Kubernetes Job, which the MPIJob owns, owns the
launcher, and retries the launcher under a new name while the gang runs. With launcherCreationPolicy WaitForWorkersReady
the launcher is made when all workers are Ready. An MPIJob of version v1 belongs to the family of training-operator.

Sources: mpi-operator v0.6.0 pkg/apis/kubeflow/v2beta1/types.go and default.go, pkg/controller/mpi_job_controller.go
(syncHandler, newWorker, newLauncherPodTemplate, defaultLabels).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sunkpy.core.gang.families import declaration, kubeflow
from sunkpy.core.gang.families.batch_job import JOB
from sunkpy.core.gang.families.belonging import made_by
from sunkpy.core.gang.families.kubeflow import GROUP, LAUNCHER, OPERATOR, ROLE, WORKER, RunPolicy
from sunkpy.core.gang.gang import Family, Gang, Owners, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Kind, Owner, Pod, Wire

MPI_JOB: Final = Kind(group=GROUP, kind="MPIJob")

_DEFAULT_BACKOFF_LIMIT: Final = 6


class _ReplicaSpec(kubeflow.ReplicaSpec, frozen=True, kw_only=True):
    template: declaration.Template = declaration.Template()


class _Spec(Wire, frozen=True, kw_only=True):
    run_policy: RunPolicy = RunPolicy()
    launcher_creation_policy: str = "AtStartup"
    mpi_replica_specs: Mapping[str, _ReplicaSpec] = {}

    def of(self, role: str) -> _ReplicaSpec | None:
        """Return what the MPIJob says of a role; None if the MPIJob does not have it. The role is `launcher` or
        `worker`, as in the label of its pods.
        """
        return self.mpi_replica_specs.get(role.capitalize())


class _ReplicaStatus(Wire, frozen=True, kw_only=True):
    failed: int = 0


class _Status(kubeflow.Status, frozen=True, kw_only=True):
    replica_statuses: Mapping[str, _ReplicaStatus] = {}


def _identify(pod: Pod, owners: Owners) -> GangId | None:
    found = made_by(pod, MPI_JOB, owners)
    if found is None or found.api_version == f"{GROUP}/v1" or pod.labels.get(OPERATOR) != "mpi-operator":
        return None
    return GangId(namespace=pod.metadata.namespace, name=found.name, uid=found.uid)


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    job = declaration.required(owners, MPI_JOB, called=f"MPIJob {id.namespace}/{id.name}")
    spec = declaration.declared(job, _Spec)
    status = job.status_as(_Status)
    is_over = status.has(("Succeeded",)) or (status.has(("Failed",)) and status.completion_time is not None)
    gang = Gang(
        id=id,
        roles=_roles(job, spec, pods),
        kind=f"MPIJob {id}",
        expects_more=not is_over and declaration.is_alive(job, (), suspended=bool(spec.run_policy.suspend)),
        final_because=_final_because(spec, status),
        suspension=declaration.suspension(job, "spec", "runPolicy", "suspend"),
    )
    return declaration.make(gang, owners)


def _roles(job: Owner, spec: _Spec, pods: Sequence[Pod]) -> tuple[Role, ...]:
    """Return the two roles of an MPIJob, launcher and workers. The launcher comes first, because it has rank 0 if it
    also does the work of a worker (runLauncherAsWorker).
    """
    launcher, worker = spec.of(LAUNCHER), spec.of(WORKER)
    sizes = {LAUNCHER: 1 if launcher else 0, WORKER: (worker.replicas or 0) if worker else 0}
    held = kubeflow.seats(job, sizes, spec.run_policy, least_workers=None)
    waits = spec.launcher_creation_policy == "WaitForWorkersReady" and held[WORKER] > 0
    launchers = Role(
        name=LAUNCHER,
        seats=held[LAUNCHER],
        first=0 if waits else held[LAUNCHER],
        members=declaration.numbered(_of(LAUNCHER, pods), lambda _: 0, held[LAUNCHER]),
    )
    workers = Role(
        name=WORKER,
        seats=held[WORKER],
        first=held[WORKER],
        members=declaration.numbered(_of(WORKER, pods), kubeflow.index, held[WORKER]),
        decides=False,
    )
    return (declaration.waiting_role(launchers, launcher.template) if launcher else launchers, workers)


def _of(role: str, pods: Sequence[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.labels.get(ROLE) == role]


def _final_because(spec: _Spec, status: _Status) -> str:
    """Say why the MPIJob fails if its launcher is evicted; empty if the launcher's Job then retries the launcher.
    Workers are always replaced.
    """
    limit = spec.run_policy.backoff_limit
    limit = _DEFAULT_BACKOFF_LIMIT if limit is None else limit
    failed = status.replica_statuses.get("Launcher", _ReplicaStatus()).failed
    if failed < limit:
        return ""
    return f"backoffLimit is {limit} and the launcher has failed {failed} times: when it is evicted the MPIJob fails"


FAMILY = Family(
    name="MPIJob",
    known_by="its owner, or the owner of that, is an MPIJob of kubeflow.org/v2beta1",
    identify=_identify,
    assemble=_assemble,
    reads=(JOB, MPI_JOB),
)
