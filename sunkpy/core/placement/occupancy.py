"""What pods take of a node without Slurm knowing it. Daemons, the slurmd pod and pods of others: all that they request.
Pods with a job: what Slurm does not count (ephemeral-storage, hugepages, devices without a GRES).

It counts as the kubelet does: what is on a node and has not finished.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from sunkpy.core import names
from sunkpy.core.model import matching
from sunkpy.core.model.objects import Container, Pod, PodSpec, Resources
from sunkpy.core.model.quantity import BadQuantity
from sunkpy.core.placement.eligibility import Candidate

_COUNTED: Final = frozenset({"cpu", "memory"})
_MOST_RESOURCES: Final = 100
_FIRST: Final = ("cpu", "memory", "ephemeral-storage")
_NOTHING: Final[dict[str, str]] = {}


def taken_by_others(pods: Iterable[Pod], *, scheduler_names: Collection[str]) -> matching.Amounts:
    """What the pods without a Slurm job take together."""
    total: matching.Amounts = {}
    for pod in pods:
        total = matching.added(total, taken_without_job(pod, scheduler_names=scheduler_names))
    return total


def taken_without_job(pod: Pod, *, scheduler_names: Collection[str]) -> matching.Amounts:
    """What a pod takes if it has no Slurm job, such as a daemon that names our scheduler; nothing for other pods."""
    is_other = pod.spec.scheduler_name not in scheduler_names or _is_without_job(pod)
    return requests(pod.spec) if is_other and _is_there(pod) else {}


def taken_uncounted(pod: Pod, *, gpu_resources: Collection[str]) -> matching.Amounts:
    """The part of what a pod with a job takes that Slurm does not count; nothing for other pods."""
    return uncounted(pod.spec, gpu_resources=gpu_resources) if _is_there(pod) and not _is_without_job(pod) else {}


def uncounted(spec: PodSpec, *, gpu_resources: Collection[str]) -> matching.Amounts:
    """The part of what such a pod requests that Slurm does not count; at least a pod."""
    return {name: n for name, n in requests(spec).items() if name not in _COUNTED and name not in gpu_resources and n}


def full_nodes(
    needs: matching.Amounts, candidates: Iterable[Candidate], held: Mapping[str, matching.Amounts]
) -> dict[str, str]:
    """Slurm node → what it lacks of `needs` if pods with a job keep what they hold there. `held`: by
    Kubernetes node.
    """
    full = {}
    for candidate in candidates:
        taken = held.get(candidate.node.name)
        if taken and (lacking := matching.shortfalls(needs, matching.subtracted(candidate.left, taken))):
            full[candidate.slurm_node] = f"{lacking[0]} beside pods of other Slurm jobs, and Slurm does not count it"
    return full


def requests(spec: PodSpec) -> matching.Amounts:
    """All that such a pod takes of a node."""
    try:
        return matching.pod_requests(spec)
    except BadQuantity:  # the apiserver would not have stored it
        return {}


def as_much(spec: PodSpec) -> Container:
    """One container that takes as much of a node as the whole pod: some pods have ten thousand containers. If there are
    more than a hundred resources, those that all pods ask for count, and some others.
    """
    asked = {name: amount for name, amount in requests(spec).items() if name != "pods"}
    if len(asked) > _MOST_RESOURCES:
        names = [*filter(asked.__contains__, _FIRST), *asked][:_MOST_RESOURCES]
        asked = {name: asked[name] for name in names}
    amounts = {name: f"{n}m" if name == "cpu" else str(n) for name, n in asked.items()}
    return Container(resources=Resources(requests=amounts, limits=_NOTHING))


def _is_without_job(pod: Pod) -> bool:
    """A pod that was bound straight to the node that it is made for."""
    return names.ANNOTATION_JOB_ID not in pod.annotations and bool(matching.named_node(pod.spec))


def _is_there(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.is_finished
