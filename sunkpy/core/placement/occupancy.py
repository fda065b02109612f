"""What pods that Slurm does not schedule take of a node: daemons, the slurmd pod itself, strangers."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sunkpy.core import names
from sunkpy.core.model import matching
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.quantity import BadQuantity


def taken_by_others(pods: Iterable[Pod], *, scheduler_names: Collection[str]) -> matching.Amounts:
    """Requests of those of the pods that have no job; daemons that name our scheduler are among them."""
    total: matching.Amounts = {}
    for pod in pods:
        is_other = pod.spec.scheduler_name not in scheduler_names or is_without_job(pod)
        if is_other and not pod.is_finished:
            total = matching.added(total, _requests(pod))
    return total


def is_without_job(pod: Pod) -> bool:
    """A pod that was bound straight to the node that it is made for."""
    return names.ANNOTATION_JOB_ID not in pod.annotations and bool(matching.named_node(pod.spec))


def _requests(pod: Pod) -> matching.Amounts:
    try:
        return matching.pod_requests(pod.spec)
    except BadQuantity:  # the apiserver would not have stored it
        return {}
