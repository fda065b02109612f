"""The family of pods of a Kubernetes Job (a CronJob makes Jobs): each pod is a gang of one, with a job of its own.

Even if `parallelism` equals `completions`, the pods need not run together. A Job is a gang only if an annotation or a
group says so, and then another family (kind of workload) takes its pods. That family asks this module the same
questions: does the Job replace an evicted pod, can the Job be suspended instead of evicting its pods, will the Job make
more pods?

Sources: kubernetes 1.35 pkg/controller/job/job_controller.go (a deleted pod counts as failed), backoff_utils.go,
pod_failure_policy.go (the first rule that matches decides; sunkpy sets the condition DisruptionTarget).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families.belonging import controllers, made_by, maker
from sunkpy.core.gang.families.plain_pod import BARE, alone, own_id
from sunkpy.core.gang.gang import Family, Gang, Owners, Suspension
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Condition, Kind, Owner, Pod, Wire

JOB: Final = Kind(group="batch", kind="Job")
DEFAULT_BACKOFF_LIMIT: Final = 6
DISRUPTED: Final = "DisruptionTarget"
_OVER: Final = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")


class _ConditionPattern(Wire, frozen=True, kw_only=True):
    type: str = ""
    status: str = "True"


class _Rule(Wire, frozen=True, kw_only=True):
    action: str = ""
    on_pod_conditions: tuple[_ConditionPattern, ...] | None = None


class _FailurePolicy(Wire, frozen=True, kw_only=True):
    rules: tuple[_Rule, ...] = ()


class _Spec(Wire, frozen=True, kw_only=True):
    parallelism: int = 1
    suspend: bool = False
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    pod_failure_policy: _FailurePolicy = _FailurePolicy()


class _Status(Wire, frozen=True, kw_only=True):
    failed: int = 0
    conditions: tuple[Condition, ...] = ()


def job_of(pod: Pod, owners: Owners) -> Owner | None:
    """Return the Kubernetes Job that controls the pod; None if the pod's controller is no Job, or could not be read."""
    return next((owner for owner in controllers(pod, owners)[:1] if owner.is_a == JOB), None)


def final_because(pod: Pod, owners: Owners) -> str:
    """Say why nothing replaces the pod once it is evicted. Empty if something replaces it, or if its Job could not be
    read.
    """
    if not maker(pod):
        return BARE
    job = job_of(pod, owners)
    return _final(job.spec_as(_Spec), job.status_as(_Status)) if job else ""


def _final(spec: _Spec, status: _Status) -> str:
    match _action_on_disruption(spec):
        case "Ignore":
            return ""
        case "FailJob":
            return "its podFailurePolicy fails the Job when a pod is disrupted"
        case "FailIndex":
            return "its podFailurePolicy fails the index when its pod is disrupted"
    if spec.backoff_limit_per_index == 0:
        return "an evicted pod counts as failed, and backoffLimitPerIndex is 0"
    if spec.backoff_limit is None and spec.backoff_limit_per_index is not None:
        return ""
    limit = DEFAULT_BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit
    if status.failed + spec.parallelism <= limit:
        return ""
    if status.failed < limit:
        why = f"more than backoffLimit {limit} of its {spec.parallelism} pods may be evicted at once, and the Job fails"
        return f"{why}; a podFailurePolicy can ignore {DISRUPTED}"
    return f"an evicted pod counts as failed, and backoffLimit {limit} is used up"


def _action_on_disruption(spec: _Spec) -> str:
    for rule in spec.pod_failure_policy.rules:
        patterns = rule.on_pod_conditions or ()
        if any(pattern.type == DISRUPTED and pattern.status == "True" for pattern in patterns):
            return rule.action
    return ""


def suspension(pod: Pod, owners: Owners, seats: int) -> Suspension | None:
    """Return how to suspend the Job that made the pod. None if the Job has more pods than this gang's `seats`, which
    would end pods of other gangs; also None if another controller would resume the Job, or if the pod has no Job that
    could be read.

    A CronJob does not resume its Jobs; any other controller of a Job may.
    """
    job = job_of(pod, owners)
    if job is None or job.spec_as(_Spec).parallelism > seats:
        return None
    is_free = all(ref.kind == "CronJob" for ref in job.metadata.owner_references if ref.controller)
    return Suspension(owner=job) if is_free else None


def expects_more(pod: Pod, owners: Owners) -> bool:
    """True if the pod's Job may make more pods after its pods have ended: the Job is not being deleted, has not ended
    and is not suspended.
    """
    job = job_of(pod, owners)
    if job is None or job.is_deleting or job.spec_as(_Spec).suspend:
        return False
    conditions = job.status_as(_Status).conditions
    return not any(condition.type in _OVER and condition.status == "True" for condition in conditions)


def as_made(gang: Gang, pods: Sequence[Pod], owners: Owners) -> Gang:
    """Return a gang of several pods with the facts added that follow from the controllers of the pods: why evicted pods
    are not replaced, how to suspend their Job, and whether it will make more pods. The last two are added only if all
    pods have the same controller.
    """
    makers = {maker(pod) for pod in pods}
    if len(makers) > 1:
        return msgspec.structs.replace(gang, final_because=BARE if "" in makers else "")
    return msgspec.structs.replace(
        gang,
        final_because=final_because(pods[0], owners),
        suspension=suspension(pods[0], owners, gang.seats),
        expects_more=expects_more(pods[0], owners),
    )


def _identify(pod: Pod, _owners: Owners) -> GangId | None:
    return own_id(pod) if made_by(pod, JOB) is not None else None


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    pod = pods[0]
    return msgspec.structs.replace(
        alone(id, pod, owners), final_because=final_because(pod, owners), suspension=suspension(pod, owners, 1)
    )


FAMILY = Family(name="Job", known_by="its owner is a Job", identify=_identify, assemble=_assemble, reads=(JOB,))
