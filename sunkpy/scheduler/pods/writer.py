"""Reads pods from the apiserver, and writes their conditions, annotations, bindings and deletions. Their Events are
written by `scheduler.outbox`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Mapping
from functools import partial

import structlog

from sunkpy.core import names
from sunkpy.core.gang.identity import noted_gang, noted_job
from sunkpy.core.gang.job.ends import DISRUPTION_TARGET, EndCause
from sunkpy.core.model.conditions import as_json, stamped
from sunkpy.core.model.objects import Condition, Key, Pod
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.kube import errors, paths
from sunkpy.kube.client import STRATEGIC_PATCH, Kube
from sunkpy.runtime.fresh_answer import FreshAnswers
from sunkpy.scheduler.record import GangRecord, SentBinding

POD_SCHEDULED = "PodScheduled"


class PodWriter:
    """Reads and writes pods at the apiserver. Every write contains the pod's uid, so it cannot change another pod of
    the same name.
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._lists: FreshAnswers[str, list[Pod]] = FreshAnswers(self._list)

    async def read(self, key: Key, uid: str) -> Pod | None:
        """Return the pod with this uid as the apiserver has it now; None if it is gone. A new pod with the same name
        does not count.

        Raises:
            KubeError: the pod could not be read.
        """
        try:
            found = await self._kube.get(paths.pod(*key), Pod)
        except errors.NotFound:
            return None
        return found if found.uid == uid else None

    async def left_of(self, record: GangRecord, *, but: Container[str] = ()) -> list[Pod]:
        """Return the pods of a gang that the apiserver still has. Each pod in the gang's record is read, except pods
        that are known to be gone and pods with a uid in `but`.

        If the record has no pods, because the gang is known only by its job, the namespace is searched for pods whose
        annotations name the gang or its job: a watch with another selector may never have shown them. Calls for the
        same namespace at about the same time share one list.
        """
        if not record.members:
            found, _ = await self._lists.get(record.id.namespace)
            for pod in found:
                if noted_gang(pod) == record.id or noted_job(pod) in record.jobs:
                    record.member(pod)
        left = []
        for uid, member in tuple(record.members.items()):
            if not member.is_gone and uid not in but:
                pod_now = await self.read(member.key, uid)
                member.is_gone = pod_now is None
                left += [pod_now] if pod_now is not None else []
        record.prune()
        return left

    async def _list(self, namespace: str) -> list[Pod]:
        return await self._kube.list_objects(paths.pods(namespace), Pod)

    async def others_on(self, node: str, *, not_older_than: str = "") -> list[Pod]:
        """Return all pods on a Kubernetes node that have not ended, of all schedulers, as the apiserver has them now.
        With `not_older_than`, a resourceVersion, the list is from the apiserver's cache at that version or later.

        Without `not_older_than`, an apiserver whose etcd is older than 3.4.31, which cannot report progress, reads all
        pods of the cluster for this list. With it, the cache may not reach that version before the next pod changes;
        the list is then as the apiserver has it now.
        """
        there = partial(self._kube.list_objects, paths.ALL_PODS, Pod, field_selector=paths.on_node(node))
        if not_older_than:
            with contextlib.suppress(errors.Unavailable):
                return await there(not_older_than=not_older_than)
        return await there()

    async def bind(self, sent: SentBinding) -> None:
        """Bind a pod to its node. The annotations that name its gang and job are written with the same request."""
        pod = sent.pod
        note = {name: pod.annotations[name] for name in names.BINDING_NOTE if name in pod.annotations}
        await self._kube.bind(*pod.key, uid=pod.uid, node=pod.spec.node_name, annotations=note)

    async def note(self, pod: Pod, annotations: Mapping[str, str | None]) -> None:
        """Write annotations of a pod. An annotation with the value None is removed."""
        body = {"metadata": {"annotations": annotations, "uid": pod.uid}}
        await self._kube.patch(paths.pod(*pod.key), body, content_type=STRATEGIC_PATCH)

    async def note_devices(self, pod: Pod, gpus: str) -> None:
        """Write the annotation that says which GPUs the pod has. If `gpus` is empty, none are known, and the annotation
        is removed. Nothing happens if the pod is gone.
        """
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self.note(pod, {names.ANNOTATION_GPU_INDICES: gpus or None})

    async def not_scheduled(self, pod: Pod, message: str, *, needs_node: bool = False) -> None:
        """Set the condition PodScheduled=False of a pod, with a message for people.

        `needs_node`: True if an autoscaler should add a node for the pod. Autoscalers do that only if the condition's
        reason is `Unschedulable`: cluster-autoscaler utils/kubernetes/listers.go `isUnschedulable`, karpenter
        pkg/utils/pod/scheduling.go `FailedToSchedule`.
        """
        if needs_node:
            await self._set_condition(pod, POD_SCHEDULED, status="False", reason="Unschedulable", message=message)
        else:
            await self._set_condition(pod, POD_SCHEDULED, status="False", reason="WaitingForSlurm", message=message)

    async def evict(self, pod: Pod, cause: EndCause, *, grace_s: int | None) -> bool:
        """Set the condition of a pod that says why it is evicted, and then delete the pod. `grace_s`: the grace period
        in seconds; None for the pod's own. Return False if the pod is gone, or another pod has its name.

        The pod is deleted even if the apiserver refuses the condition, because the pod's node is needed.
        """
        try:
            await self._set_condition(pod, cause.condition, status="True", reason=cause.reason, message=cause.message)
        except (errors.NotFound, errors.Conflict):
            return False
        except errors.KubeError as error:
            structlog.get_logger("pods").warning("evicted without a condition", error=str(error))
        return await self.delete(pod, grace_s=grace_s)

    async def delete(self, pod: Pod, *, grace_s: int | None) -> bool:
        """Delete a pod. For a pod that is already being deleted, this shortens the grace period. `grace_s`: the grace
        period in seconds; None for the pod's own. Return False if the pod is gone, or another pod has its name.
        """
        try:
            await self._kube.delete(paths.pod(*pod.key), uid=pod.uid, grace_period_s=grace_s)
        except (errors.NotFound, errors.Conflict):
            return False
        return True

    async def explain_disruption(self, pod: Pod, *, reason: str, message: str) -> None:
        """Write the full reason of an eviction into the pod's condition DisruptionTarget. Nothing happens if the pod is
        gone.
        """
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._set_condition(pod, DISRUPTION_TARGET, status="True", reason=reason, message=message)

    async def _set_condition(self, pod: Pod, type_: str, *, status: str, reason: str, message: str) -> None:
        new = Condition(type=type_, status=status, reason=reason, message=message)
        condition = as_json(stamped(new, pod.condition(type_), rfc3339(utc_now())))
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        await self._kube.patch(paths.status(paths.pod(*pod.key)), body, content_type=STRATEGIC_PATCH)
