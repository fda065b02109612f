"""What the scheduler writes on pods: conditions, annotations, bindings, deletions. Events: `scheduler.outbox`."""

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
    """Every write names the pod by uid, so a pod that was replaced under its name is never hit."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._lists: FreshAnswers[str, list[Pod]] = FreshAnswers(self._list)

    async def read(self, key: Key, uid: str) -> Pod | None:
        """The pod as the apiserver has it now; None when it is gone or another one has its name.

        Raises:
            KubeError: it could not be read.
        """
        try:
            found = await self._kube.get(paths.pod(*key), Pod)
        except errors.NotFound:
            return None
        return found if found.uid == uid else None

    async def left_of(self, record: GangRecord, *, but: Container[str] = ()) -> list[Pod]:
        """The pods of a gang that the apiserver has now; those it once said were gone are not asked for again.

        `but`: uids of those that need not be asked for.

        A leader that knows a gang by its job alone looks through the namespace for pods with its note: a watch with
        another selector may never have shown them. One list serves all gangs of the namespace that ask at once.
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
        """All pods on a node that have not ended, as the apiserver has them now, or had them at that resourceVersion or
        later.

        The former makes an apiserver whose etcd cannot report progress (before 3.4.31) read all pods there are. But the
        cache of such a one does not come to the version of a list until the next pod changes.
        """
        there = partial(self._kube.list_objects, paths.ALL_PODS, Pod, field_selector=paths.on_node(node))
        if not_older_than:
            with contextlib.suppress(errors.Unavailable):
                return await there(not_older_than=not_older_than)
        return await there()

    async def bind(self, sent: SentBinding) -> None:
        """Bind a pod, with its note in the same write."""
        pod = sent.pod
        note = {name: pod.annotations[name] for name in names.BINDING_NOTE if name in pod.annotations}
        await self._kube.bind(*pod.key, uid=pod.uid, node=pod.spec.node_name, annotations=note)

    async def note(self, pod: Pod, annotations: Mapping[str, str | None]) -> None:
        """Annotate a pod; None takes an annotation off it."""
        body = {"metadata": {"annotations": annotations, "uid": pod.uid}}
        await self._kube.patch(paths.pod(*pod.key), body, content_type=STRATEGIC_PATCH)

    async def note_devices(self, pod: Pod, gpus: str) -> None:
        """Note on a pod which GPUs are its own, or that none is known to be. A pod that is gone needs no note."""
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self.note(pod, {names.ANNOTATION_GPU_INDICES: gpus or None})

    async def not_scheduled(self, pod: Pod, message: str, *, needs_node: bool = False) -> None:
        """PodScheduled=False with the reason for people.

        For a pod with reason `Unschedulable` autoscalers buy a node, and for no other: cluster-autoscaler
        utils/kubernetes/listers.go `isUnschedulable`, karpenter pkg/utils/pod/scheduling.go `FailedToSchedule`.
        """
        if needs_node:
            await self._set_condition(pod, POD_SCHEDULED, status="False", reason="Unschedulable", message=message)
        else:
            await self._set_condition(pod, POD_SCHEDULED, status="False", reason="WaitingForSlurm", message=message)

    async def evict(self, pod: Pod, cause: EndCause, *, grace_s: int | None) -> bool:
        """Say why, then delete, with this grace period or the pod's own. False: it is gone, or another pod now.

        It goes whether or not it can be said why: its node waits.
        """
        try:
            await self._set_condition(pod, cause.condition, status="True", reason=cause.reason, message=cause.message)
        except (errors.NotFound, errors.Conflict):
            return False
        except errors.KubeError as error:
            structlog.get_logger("pods").warning("evicted without a condition", error=str(error))
        return await self.delete(pod, grace_s=grace_s)

    async def delete(self, pod: Pod, *, grace_s: int | None) -> bool:
        """Delete it, also one that is ending, to give it less time. False: it is gone, or another pod now."""
        try:
            await self._kube.delete(paths.pod(*pod.key), uid=pod.uid, grace_period_s=grace_s)
        except (errors.NotFound, errors.Conflict):
            return False
        return True

    async def explain_disruption(self, pod: Pod, *, reason: str, message: str) -> None:
        """Say more of why a pod was evicted, if it is still there."""
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._set_condition(pod, DISRUPTION_TARGET, status="True", reason=reason, message=message)

    async def _set_condition(self, pod: Pod, type_: str, *, status: str, reason: str, message: str) -> None:
        new = Condition(type=type_, status=status, reason=reason, message=message)
        condition = as_json(stamped(new, pod.condition(type_), rfc3339(utc_now())))
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        await self._kube.patch(paths.status(paths.pod(*pod.key)), body, content_type=STRATEGIC_PATCH)
