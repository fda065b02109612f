"""What pods take of a node that Slurm does not know: all that daemons, the slurmd pod and strangers request, and of
pods with a job what Slurm does not count: ephemeral-storage, hugepages, devices for which no GRES stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from sunkpy.core import names
from sunkpy.core.model import matching
from sunkpy.core.model.objects import Pod, PodSpec
from sunkpy.core.model.quantity import BadQuantity
from sunkpy.core.placement.eligibility import Candidate

_COUNTED: Final = frozenset({"cpu", "memory"})


def taken_by_others(pods: Iterable[Pod], *, scheduler_names: Collection[str]) -> matching.Amounts:
    """Requests of those of the pods that have no job; daemons that name our scheduler are among them."""
    total: matching.Amounts = {}
    for pod in pods:
        is_other = pod.spec.scheduler_name not in scheduler_names or is_without_job(pod)
        if is_other and not pod.is_finished:
            total = matching.added(total, _requests(pod.spec))
    return total


def is_without_job(pod: Pod) -> bool:
    """A pod that was bound straight to the node that it is made for."""
    return names.ANNOTATION_JOB_ID not in pod.annotations and bool(matching.named_node(pod.spec))


def uncounted(spec: PodSpec, *, gpu_resources: Collection[str]) -> matching.Amounts:
    """What such a pod requests and Slurm does not count; at least a pod."""
    return {name: n for name, n in _requests(spec).items() if name not in _COUNTED and name not in gpu_resources and n}


def full_nodes(
    needs: matching.Amounts, candidates: Iterable[Candidate], held: Mapping[str, matching.Amounts]
) -> dict[str, str]:
    """Slurm node → what is lacking of `needs` beside what pods with a job hold there; `held` is by Kubernetes node."""
    full = {}
    for candidate in candidates:
        taken = held.get(candidate.node.name)
        if taken and (lacking := matching.shortfalls(needs, matching.subtracted(candidate.left, taken))):
            full[candidate.slurm_node] = f"{lacking[0]} beside pods of other Slurm jobs, and Slurm does not count it"
    return full


def _requests(spec: PodSpec) -> matching.Amounts:
    try:
        return matching.pod_requests(spec)
    except BadQuantity:  # the apiserver would not have stored it
        return {}
