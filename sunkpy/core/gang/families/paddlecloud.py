"""The family of PaddleJobs of PaddleCloud's paddle-operator (group batch.paddlepaddle.org): parameter servers, workers,
and heter workers.

All replicas are one gang. All must be bound before any container starts: the operator then writes all addresses into a
ConfigMap, once. An elastic job has no ConfigMap; its workers beyond `requests` get jobs of their own. A pod that is
made again has the old pod's name, so the gang has no generation (the part of its identity that tells restarts apart). A
PaddleJob cannot be suspended.

Sources: paddle-operator v0.3.5 api/v1/paddlejob_types.go, controllers/paddlejob_controller.go, paddlejob_helper.go
(constructPod, getPaddleJobPhase).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families import declaration
from sunkpy.core.gang.families.belonging import made_by, nearest
from sunkpy.core.gang.families.declaration import BadDeclaration, count
from sunkpy.core.gang.gang import Family, Gang, Owners, Role, extra_unit
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Kind, Owner, Pod, Wire

PADDLE_JOB: Final = Kind(group="batch.paddlepaddle.org", kind="PaddleJob")

TYPE: Final = "paddle-res-type"

_SERVER: Final = "ps"
_WORKER: Final = "worker"

_OVER: Final = ("Completed", "Failed", "Succeed", "Terminated", "Aborted")


class _Resource(Wire, frozen=True, kw_only=True):
    replicas: int = 0
    requests: int | None = None


class _Spec(Wire, frozen=True, kw_only=True):
    ps: _Resource | None = None
    worker: _Resource | None = None
    heter: _Resource | None = None
    elastic: int | None = None


class _Status(Wire, frozen=True, kw_only=True):
    phase: str = ""


def _identify(pod: Pod, owners: Owners) -> GangId | None:
    found = made_by(pod, PADDLE_JOB)
    if found is None:
        return None
    job = nearest(owners, PADDLE_JOB)
    unit = extra_unit(pod) if job and _is_elastic(pod, job) else ""
    return GangId(namespace=pod.metadata.namespace, name=found.name, uid=found.uid, unit=unit)


def _is_elastic(pod: Pod, job: Owner) -> bool:
    try:
        spec = job.spec_as(_Spec)
        held = _seats(job, spec)
    except (msgspec.ValidationError, RecursionError, BadDeclaration):
        return False  # `assemble` reports the error
    if spec.worker is None or pod.labels.get(TYPE) != _WORKER:
        return False
    return held[_WORKER] <= _index(pod) < spec.worker.replicas


def _seats(job: Owner, spec: _Spec) -> dict[str, int]:
    declared = {_SERVER: spec.ps, _WORKER: spec.worker, "heter": spec.heter}
    held = {
        role: count(job, f"spec.{role}.replicas", each.replicas) for role, each in declared.items() if each is not None
    }
    least = spec.worker.requests if spec.worker and spec.elastic is not None else None
    if least is not None:
        count(job, "spec.worker.requests", least, least=1)
        if least > held[_WORKER]:
            raise BadDeclaration(
                f"PaddleJob {'/'.join(job.key)}: spec.worker.requests is {least}, more than the {held[_WORKER]} workers"
            )
        held[_WORKER] = least
    return held


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    job = declaration.required(owners, PADDLE_JOB, called=f"PaddleJob {id.namespace}/{id.name}")
    spec = declaration.declared(job, _Spec)
    gang = Gang(
        id=id,
        roles=tuple(_role(name, seats, pods) for name, seats in _seats(job, spec).items()),
        kind=f"PaddleJob {id}",
        expects_more=not job.is_deleting and job.status_as(_Status).phase not in _OVER,
        final_because="" if spec.elastic is not None else _FINAL,
    )
    return declaration.make(gang, owners)


_FINAL: Final = "a pod that is seen Failed ends the PaddleJob, and new pods are given the addresses of the first ones"


def _role(name: str, seats: int, pods: Sequence[Pod]) -> Role:
    members = declaration.numbered([pod for pod in pods if pod.labels.get(TYPE) == name], _index, seats)
    return Role(name=name, seats=seats, first=seats, members=members, decides=name != _SERVER)


def _index(pod: Pod) -> int:
    """Return the number of a pod in its role. It stands only in the pod's name: `<job>-<role>-<number>`."""
    return declaration.ordinal(pod.name.rpartition("-")[2])


FAMILY = Family(
    name="PaddleCloud",
    known_by="its owner is a PaddleJob of batch.paddlepaddle.org",
    identify=_identify,
    assemble=_assemble,
    reads=(PADDLE_JOB,),
)
