"""What pods take from a node without Slurm knowing it.

Pods without a Slurm job (daemons, the slurmd pod, pods of other schedulers) take all that they request. Pods with a job
take what Slurm does not count: ephemeral-storage, hugepages, devices without a GRES. As for the kubelet, a pod counts
while it is on the node and has not finished.
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
    """Return what the pods without a Slurm job take together."""
    total: matching.Amounts = {}
    for pod in pods:
        total = matching.added(total, taken_without_job(pod, scheduler_names=scheduler_names))
    return total


def taken_without_job(pod: Pod, *, scheduler_names: Collection[str]) -> matching.Amounts:
    """Return what the pod takes if it has no Slurm job, such as a daemon that names sunkpy's scheduler; nothing if it
    has one.
    """
    is_other = pod.spec.scheduler_name not in scheduler_names or _is_without_job(pod)
    return requests(pod.spec) if is_other and _is_there(pod) else {}


def taken_uncounted(pod: Pod, *, gpu_resources: Collection[str]) -> matching.Amounts:
    """Return what a pod with a job takes that Slurm does not count; nothing for a pod without a job."""
    return uncounted(pod.spec, gpu_resources=gpu_resources) if _is_there(pod) and not _is_without_job(pod) else {}


def uncounted(spec: PodSpec, *, gpu_resources: Collection[str]) -> matching.Amounts:
    """Return the part of a pod's requests that Slurm does not count; this is at least `pods: 1`."""
    return {name: n for name, n in requests(spec).items() if name not in _COUNTED and name not in gpu_resources and n}


def full_nodes(
    needs: matching.Amounts, candidates: Iterable[Candidate], held: Mapping[str, matching.Amounts]
) -> dict[str, str]:
    """Return Slurm node → which of the `needs` it lacks, for nodes that lack one because pods with a job have it.

    `held`: what such pods have, by Kubernetes node.
    """
    full = {}
    for candidate in candidates:
        taken = held.get(candidate.node.name)
        if taken and (lacking := matching.shortfalls(needs, matching.subtracted(candidate.left, taken))):
            full[candidate.slurm_node] = f"{lacking[0]} beside pods of other Slurm jobs, and Slurm does not count it"
    return full


def requests(spec: PodSpec) -> matching.Amounts:
    """Return all that a pod takes from a node; nothing if its quantities cannot be read."""
    try:
        return matching.pod_requests(spec)
    except BadQuantity:  # the apiserver would not have stored it
        return {}


def as_much(spec: PodSpec) -> Container:
    """Return one container that takes as much of a node as the whole pod, because some pods have ten thousand
    containers.

    If the pod asks for more than a hundred resources, the container has cpu, memory, ephemeral-storage and some others.
    """
    asked = {name: amount for name, amount in requests(spec).items() if name != "pods"}
    if len(asked) > _MOST_RESOURCES:
        names = [*filter(asked.__contains__, _FIRST), *asked][:_MOST_RESOURCES]
        asked = {name: asked[name] for name in names}
    amounts = {name: f"{n}m" if name == "cpu" else str(n) for name, n in asked.items()}
    return Container(resources=Resources(requests=amounts, limits=_NOTHING))


def _is_without_job(pod: Pod) -> bool:
    """True if the pod is made for one node, like a DaemonSet's pod, and was bound there without a Slurm job."""
    return names.ANNOTATION_JOB_ID not in pod.annotations and bool(matching.named_node(pod.spec))


def _is_there(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.is_finished
